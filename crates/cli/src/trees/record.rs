//! The JSON objects of programs, trees and sums; `docs/json.md` describes them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde::Serialize;
use tree::{Account, Branch, Listed, What};

use crate::json::Name;

#[derive(Serialize)]
pub(super) struct ProgramRecord<'a> {
    r#type: &'static str,
    program: Name<'a>,
    user: u32,
    #[serde(flatten)]
    worth: Worth,
}

#[derive(Serialize)]
pub(super) struct SumRecord {
    r#type: &'static str,
    programs: usize,
    accuracy: Option<f64>,
    coverage: Option<f64>,
    #[serde(flatten)]
    worth: Worth,
}

#[derive(Serialize)]
struct Worth {
    runs: u64,
    predicted: u64,
    in_time: u64,
    late: u64,
    missed: u64,
    near: u64,
    unused: u64,
    fetched_bytes: u64,
    wasted_bytes: u64,
    saved_s: f64,
}

#[derive(Serialize)]
pub(super) struct TreeRecord<'a> {
    r#type: &'static str,
    program: Name<'a>,
    user: u32,
    below: Vec<BranchRecord<'a>>,
}

#[derive(Serialize)]
struct BranchRecord<'a> {
    name: Name<'a>,
    what: &'static str,
    at_s: f64,
    share: f32,
    below: Vec<BranchRecord<'a>>,
}

pub(super) fn program(listed: &Listed) -> ProgramRecord<'_> {
    ProgramRecord {
        r#type: "program",
        program: name(&listed.name),
        user: listed.user.0,
        worth: worth(&listed.account),
    }
}

pub(super) fn account(programs: usize, sum: &Account) -> SumRecord {
    SumRecord {
        r#type: "predictions",
        programs,
        accuracy: sum.accuracy(),
        coverage: sum.coverage(),
        worth: worth(sum),
    }
}

pub(super) fn tree<'a>(listed: &'a Listed, branches: &'a [Branch]) -> TreeRecord<'a> {
    TreeRecord {
        r#type: "tree",
        program: name(&listed.name),
        user: listed.user.0,
        below: below(branches),
    }
}

fn below(branches: &[Branch]) -> Vec<BranchRecord<'_>> {
    branches.iter().map(branch).collect()
}

fn branch(branch: &Branch) -> BranchRecord<'_> {
    BranchRecord {
        name: name(&branch.name),
        what: match branch.what {
            What::Read => "read",
            What::Written => "written",
            What::Run => "run",
        },
        at_s: branch.at.as_secs_f64(),
        share: branch.share,
        below: below(&branch.below),
    }
}

fn worth(account: &Account) -> Worth {
    Worth {
        runs: account.runs,
        predicted: account.predicted,
        in_time: account.in_time,
        late: account.late,
        missed: account.missed,
        near: account.near,
        unused: account.unused,
        fetched_bytes: account.fetched_bytes,
        wasted_bytes: account.wasted_bytes,
        saved_s: account.saved.as_secs_f64(),
    }
}

fn name(bytes: &[u8]) -> Name<'_> {
    Name::new(OsStr::from_bytes(bytes))
}
