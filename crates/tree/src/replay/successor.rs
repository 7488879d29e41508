//! The file that followed last time follows again: alone, and asked for each program.

use std::collections::HashMap;
use std::time::Duration;

use super::names::{Name, Names};
use super::predictor::{Predictor, Programs, Says, reference};
use crate::{Decision, Event};

/// After a file comes the file that came after it last time, whoever opened it.
#[derive(Debug, Default)]
pub struct LastSuccessor {
    names: Names,
    says: Says,
    before: Option<Name>,
    after: HashMap<Name, Name>,
}

impl Predictor for LastSuccessor {
    fn on(&mut self, event: &Event, _now: Duration) -> Vec<Decision> {
        let Some((process, file)) = reference(event) else { return Vec::new() };
        let name = self.names.number(&file.path);
        if let Some(before) = self.before.replace(name) {
            self.after.insert(before, name);
        }
        let next = self.after.get(&name).map(|&next| (self.names.bytes(next), 1.0));
        self.says.fetch(process, next.into_iter().collect())
    }
}

/// After a file that a program opened comes the file that came after it last time when that program
/// opened it (program-based last successor, Yeh, Long & Brandt 2001).
#[derive(Debug, Default)]
pub struct ProgramSuccessor {
    names: Names,
    says: Says,
    programs: Programs,
    before: HashMap<Name, Name>,
    after: HashMap<(Name, Name), Name>,
}

impl Predictor for ProgramSuccessor {
    fn on(&mut self, event: &Event, _now: Duration) -> Vec<Decision> {
        self.programs.on(event);
        let Some((process, file)) = reference(event) else { return Vec::new() };
        let Some(program) = self.programs.of(process) else { return Vec::new() };
        let program = self.names.number(program);
        let name = self.names.number(&file.path);
        if let Some(before) = self.before.insert(program, name) {
            self.after.insert((program, before), name);
        }
        let next = self.after.get(&(program, name));
        let next = next.map(|&next| (self.names.bytes(next), 1.0));
        self.says.fetch(process, next.into_iter().collect())
    }
}
