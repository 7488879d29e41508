//! Replays a trace of somebody who looks at objects one after the other, and thinks in between.
//!
//! A trace is JSON: `{"think_s": [1.2, …], "objects": [{"path": "/0", …}, …]}`. With `sets` its
//! objects are one set, and whichever is ready is looked at next; with `plain` each is asked for when
//! the one before has been looked at, in the order of the trace (the SETS paper, Figure 11).

use std::time::Duration;

use fetch::engine::Engine;
use nearfirst_set::{Set, SetOptions, Spec};
use rustix::event::{Timespec, poll};
use serde_json::Value;
use store::Name;

use crate::Result;
use crate::usage::{self, Usage};

pub(crate) fn run(words: &[String]) -> Result<Usage> {
    let [mode, trace, server] = words else {
        return Err("expected sets or plain, a trace and the address of a server".into());
    };
    let trace: Value = serde_json::from_slice(&std::fs::read(trace)?)?;
    let objects = trace["objects"].as_array().ok_or("the trace has no objects")?;
    let paths = objects.iter().map(|object| object["path"].as_str().ok_or("an object has no path"));
    let urls: Vec<String> =
        paths.map(|path| Ok(format!("{server}{}", path?))).collect::<Result<_>>()?;
    let think = trace["think_s"].as_array().ok_or("the trace has no think times")?;
    let mut think = think.iter().map(|time| Duration::from_secs_f64(time.as_f64().unwrap_or(0.0)));
    let mut usage = Usage::begin();
    let engine = usage::engine()?;
    // Without sets, each object is a set of its own, opened when it is looked at.
    let sets: Vec<&[String]> = match mode.as_str() {
        "sets" => vec![&urls],
        "plain" => urls.chunks(1).collect(),
        _ => return Err(format!("expected sets or plain, not {mode}").into()),
    };
    for urls in sets {
        look(&engine, urls, &mut think, &mut usage)?;
    }
    Ok(usage)
}

fn look(
    engine: &Engine,
    urls: &[String],
    think: &mut impl Iterator<Item = Duration>,
    usage: &mut Usage,
) -> Result<()> {
    let specs = [Spec::list(urls.iter().map(|url| Name::new(url.as_bytes())))];
    let set = usage.waiting(|| Set::open(engine, specs, SetOptions::default()));
    while let Some(member) = usage.waiting(|| set.next()) {
        let member = member?;
        let bytes = usage.waiting(|| member.read())?;
        usage.read(bytes.len());
        usage.member();
        if let Some(time) = think.next() {
            poll(&mut [], Some(&Timespec::try_from(time)?))?;
        }
    }
    Ok(())
}
