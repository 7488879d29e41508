//! What the server was told to answer, and what was asked of it. Pure: no streams, no time.

use std::collections::{HashMap, VecDeque};

use super::Answer;

/// Requests that are remembered; a bench asks more, and looks at counts only.
const REQUESTS_MAX: usize = 100_000;

/// A request that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `HEAD`, …
    pub method: String,
    /// Path and query as they came.
    pub target: String,
    /// Name and value of each header, in their order.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// The first value of this header; names are compared without regard to case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// What was asked of a path, or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests whose head came.
    pub requests: u64,
    /// Bytes of bodies that were sent, without their framing.
    pub bytes: u64,
    /// Requests that are under way.
    pub concurrent: u64,
    /// The most requests that were under way at a time.
    pub concurrent_max: u64,
}

impl Counts {
    fn begin(&mut self) {
        self.requests += 1;
        self.concurrent += 1;
        self.concurrent_max = self.concurrent_max.max(self.concurrent);
    }

    fn reset(&mut self) {
        *self =
            Self { concurrent: self.concurrent, concurrent_max: self.concurrent, ..Self::default() }
    }
}

#[derive(Debug, Default)]
pub(super) struct Script {
    by_path: HashMap<String, VecDeque<Answer>>,
    by_number: HashMap<u64, Answer>,
    every: Option<(u64, Answer)>,
    /// Requests since the start: counts can be reset, this cannot.
    number: u64,
    counts: HashMap<String, Counts>,
    total: Counts,
    requests: VecDeque<Request>,
}

impl Script {
    pub(super) fn set(&mut self, path: &str, answers: VecDeque<Answer>) {
        self.by_path.insert(path.to_owned(), answers);
    }

    pub(super) fn set_nth(&mut self, n: u64, answer: Answer) {
        self.by_number.insert(n, answer);
    }

    pub(super) fn set_every_nth(&mut self, n: u64, answer: Answer) {
        self.every = Some((n, answer));
    }

    /// Counts a request; returns its number, from 1, and what it was told to be answered.
    pub(super) fn begin(&mut self, request: Request) -> (u64, Option<Answer>) {
        self.number += 1;
        self.total.begin();
        self.counts.entry(path(&request.target).to_owned()).or_default().begin();
        let answer = self.choose(&request.target);
        if self.requests.len() == REQUESTS_MAX {
            self.requests.pop_front();
        }
        self.requests.push_back(request);
        (self.number, answer)
    }

    fn choose(&mut self, target: &str) -> Option<Answer> {
        if let Some(answer) = self.by_number.get(&self.number) {
            return Some(answer.clone());
        }
        if let Some((n, answer)) = &self.every
            && self.number.is_multiple_of(*n)
        {
            return Some(answer.clone());
        }
        let path = if self.by_path.contains_key(target) { target } else { path(target) };
        let answers = self.by_path.get_mut(path)?;
        if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
    }

    pub(super) fn sent(&mut self, target: &str, bytes: u64) {
        self.total.bytes += bytes;
        self.counts.entry(path(target).to_owned()).or_default().bytes += bytes;
    }

    pub(super) fn end(&mut self, target: &str) {
        self.total.concurrent -= 1;
        if let Some(counts) = self.counts.get_mut(path(target)) {
            counts.concurrent -= 1;
        }
    }

    pub(super) fn counts(&self, path: &str) -> Counts {
        self.counts.get(path).copied().unwrap_or_default()
    }

    pub(super) fn total(&self) -> Counts {
        self.total
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.iter().cloned().collect()
    }

    pub(super) fn reset_counts(&mut self) {
        self.total.reset();
        self.counts.values_mut().for_each(Counts::reset);
        self.requests.clear();
    }
}

fn path(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}
