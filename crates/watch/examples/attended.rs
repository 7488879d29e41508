//! `nearfirst run` without the rest of the command line: a program small enough to be built for
//! every measurement of what observing costs. `attended CMD…`; `NEARFIRST_STATE` names the folder.

use std::ffi::OsString;
use std::process::ExitCode;

use nearfirst_watch::command::{self, Ended, Outcome};
use nearfirst_watch::{PatternStore, SessionOptions, attend};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let store = PatternStore::own();
    let options = SessionOptions { fetches: true, ..SessionOptions::default() };
    let outcome = command::run(&words, |observer, reporter| {
        attend(observer, reporter, store.as_ref(), &options);
        reporter.done();
    });
    match outcome {
        Ok(Outcome::Ended { how: Ended::Code(code), .. }) => {
            ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
        }
        _ => ExitCode::FAILURE,
    }
}
