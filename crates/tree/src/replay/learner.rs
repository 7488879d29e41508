//! The learner as a predictor.

use std::time::Duration;

use super::predictor::Predictor;
use crate::{Decision, Event, Learner};

impl Predictor for Learner {
    fn on(&mut self, event: &Event, now: Duration) -> Vec<Decision> {
        Self::on(self, event.clone(), now)
    }

    fn begin_anew(&mut self) {
        Self::begin_anew(self);
    }
}
