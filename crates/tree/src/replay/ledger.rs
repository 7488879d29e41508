//! What is predicted and has not been read yet.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::names::Name;
use crate::PredictionId;

/// What has become of a predicted file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It waits for its turn, which comes in the order of these.
    Waiting((Duration, u64)),
    /// It was fetched, or is on its way: so many bytes, and what it costs the cache.
    Fetched { bytes: u64, cost: u64 },
    /// It was near when its turn came, and is kept at the same cost.
    Kept { cost: u64 },
    /// It is larger than any guess may be.
    Left,
}

/// A file whose turn has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) name: Name,
    pub(super) prediction: PredictionId,
    pub(super) bytes: u64,
    pub(super) asked: Duration,
}

/// All predicted files that nobody has read since.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    files: HashMap<Name, (PredictionId, State)>,
    of: HashMap<PredictionId, Vec<Name>>,
    turns: BTreeMap<(Duration, u64), Turn>,
    asked: u64,
    /// What fetched and kept files cost the cache, but for those fetched of predictions withdrawn
    /// since.
    unread: u64,
}

impl Ledger {
    /// Whether the file was not in it.
    pub(super) fn leave(&mut self, name: Name, prediction: PredictionId) -> bool {
        if self.files.contains_key(&name) {
            return false;
        }
        self.enter(name, prediction, State::Left)
    }

    /// A file is wanted by `need`. Whether it was not in the ledger; if it waits there for a later
    /// turn, it takes the earlier one.
    pub(super) fn want(&mut self, turn: Turn, need: Duration) -> bool {
        let known = match self.files.get(&turn.name) {
            Some((_, State::Waiting(key))) if key.0 <= need => return false,
            Some((_, State::Waiting(key))) => {
                self.turns.remove(key);
                true
            }
            Some((_, State::Fetched { .. } | State::Kept { .. })) => return false,
            Some((_, State::Left)) => true,
            None => false,
        };
        self.asked += 1;
        let key = (need, self.asked);
        self.turns.insert(key, turn);
        self.enter(turn.name, turn.prediction, State::Waiting(key));
        !known
    }

    fn enter(&mut self, name: Name, prediction: PredictionId, state: State) -> bool {
        self.of.entry(prediction).or_default().push(name);
        self.files.insert(name, (prediction, state)).is_none()
    }

    /// The file whose turn is next.
    pub(super) fn turn(&self) -> Option<&Turn> {
        self.turns.first_key_value().map(|(_, turn)| turn)
    }

    /// That file is being fetched, or kept, at a cost to the cache.
    pub(super) fn taken(&mut self, state: State) {
        if let Some((_, turn)) = self.turns.pop_first() {
            self.files.insert(turn.name, (turn.prediction, state));
            if let State::Fetched { cost, .. } | State::Kept { cost } = state {
                self.unread += cost;
            }
        }
    }

    /// Whether a file is kept, or was fetched or is on its way, and nobody has read it.
    pub(super) fn had_its_turn(&self, name: Name) -> bool {
        let state = self.files.get(&name).map(|(_, state)| state);
        matches!(state, Some(State::Fetched { .. } | State::Kept { .. }))
    }

    /// What files that were fetched or kept for somebody cost the cache.
    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    /// A file is read, or will not be: it leaves the ledger.
    pub(super) fn remove(&mut self, name: Name) -> Option<(PredictionId, State)> {
        let (prediction, state) = self.files.remove(&name)?;
        match state {
            State::Waiting(key) => drop(self.turns.remove(&key)),
            State::Fetched { cost, .. } | State::Kept { cost } => self.unread -= cost,
            State::Left => {}
        }
        Some((prediction, state))
    }

    /// The cache threw a file out: it leaves the ledger, unless its turn is yet to come.
    pub(super) fn thrown_out(&mut self, name: Name) -> Option<(PredictionId, State)> {
        match self.files.get(&name)? {
            (_, State::Waiting(_)) => None,
            _ => self.remove(name),
        }
    }

    /// What of a prediction is not under way leaves the ledger: returns it, and whether it waited.
    pub(super) fn withdraw(&mut self, prediction: PredictionId) -> Vec<(Name, bool)> {
        let mut left = Vec::new();
        for name in self.of.remove(&prediction).unwrap_or_default() {
            let Some((of, state)) = self.files.get_mut(&name) else { continue };
            if *of != prediction {
                continue;
            }
            if let State::Fetched { cost, .. } = state {
                // It stays until it is read or thrown out, and nobody waits for that.
                self.unread -= std::mem::take(cost);
                continue;
            }
            left.push((name, matches!(state, State::Waiting(_))));
            self.remove(name);
        }
        left
    }

    /// Everything that is in it, by name.
    pub(super) fn rest(&self) -> Vec<(Name, PredictionId, State)> {
        let files = self.files.iter();
        let mut rest: Vec<_> = files.map(|(&name, &(of, state))| (name, of, state)).collect();
        rest.sort_unstable_by_key(|(name, ..)| *name);
        rest
    }
}
