//! The parser of `find`'s language, taken from the command's own sources: a program has no library.
#![expect(dead_code, reason = "the command uses the rest")]

#[path = "../../cli/src/find/expr.rs"]
mod expr;
#[path = "../../cli/src/find/mode.rs"]
mod mode;
#[path = "../../cli/src/find/operand.rs"]
mod operand;
#[path = "../../cli/src/find/parse.rs"]
mod parse;
#[path = "../../cli/src/find/predicate.rs"]
mod predicate;
#[path = "../../cli/src/find/printf.rs"]
mod printf;
#[path = "../../cli/src/find/quote.rs"]
mod quote;
#[path = "../../cli/src/find/syntax.rs"]
mod syntax;
#[path = "../../cli/src/find/time.rs"]
mod time;
#[path = "../../cli/src/find/tree.rs"]
mod tree;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

/// The arguments are the NUL-separated parts; they are refused with a reason, or understood.
pub fn expression(bytes: &[u8]) {
    let words: Vec<OsString> =
        bytes.split(|&byte| byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
    match parse::parse(&words) {
        Ok(parsed) => assert!(parsed.starts.len() <= words.len()),
        Err(error) => assert!(!error.text.is_empty(), "a refusal has a reason"),
    }
}
