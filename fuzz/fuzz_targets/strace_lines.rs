#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearfirst_fuzzed::strace_lines(bytes));
