//! What files cost: the questions of `-latency` and `-device`.

/// What is known of one file's cost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cost;

use super::entry::Entry;
use super::session::Stats;
use rustix::fs::Statx;

/// Asks for costs.
#[derive(Debug, Default)]
pub(crate) struct Costs {}

impl Costs {
    pub(crate) fn fs_type(&mut self, _meta: &Statx) -> Option<&[u8]> {
        None
    }
    pub(crate) fn latency(&mut self, _entry: &mut Entry<'_>, _stats: &mut Stats) -> Option<f64> {
        None
    }
    pub(crate) fn devices(&mut self, _entry: &mut Entry<'_>, _stats: &mut Stats) -> Vec<String> {
        Vec::new()
    }
}
