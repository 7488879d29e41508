#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearfirst_fuzzed::trace(bytes));
