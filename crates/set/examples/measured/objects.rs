//! Reads every member of the sets that are named: against other libraries that read objects.

use nearfirst_set::{Set, SetOptions, Spec};

use crate::Result;
use crate::usage::{self, Usage};

pub(crate) fn run(words: &[String]) -> Result<Usage> {
    let specs: Vec<Spec> = words.iter().map(Spec::parse).collect::<std::result::Result<_, _>>()?;
    let mut usage = Usage::begin();
    let engine = usage::engine()?;
    let set = Set::open(&engine, specs, SetOptions::default());
    while let Some(member) = usage.waiting(|| set.next()) {
        let mut member = member?;
        loop {
            let chunk = usage.waiting(|| member.chunk())?;
            if chunk.is_empty() {
                break;
            }
            usage.read(chunk.len());
        }
        usage.member();
    }
    Ok(usage)
}
