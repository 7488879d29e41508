//! The JSON objects of `sleds --json`; `docs/json.md` describes them.

use std::path::Path;

use nearfirst::{DeliveryTime, Plan, Reason, Sled, delivery_time};
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};

use super::Report;
use super::tree::Tree;
use crate::flags::PlanFlag;
use crate::json::{self, Name, Quantity};
use crate::shares::Shares;

#[derive(Serialize)]
pub(super) struct FileRecord<'a> {
    r#type: &'static str,
    path: Name<'a>,
    bytes: u64,
    #[serde(flatten)]
    shares: Shares,
    reason: Option<String>,
    delivery: Delivery,
    sleds: SledList<'a>,
}

#[derive(Serialize)]
pub(super) struct TreeRecord<'a> {
    r#type: &'static str,
    path: Name<'a>,
    files: u64,
    bytes: u64,
    #[serde(flatten)]
    shares: Shares,
    reasons: Vec<ReasonRecord>,
    delivery: Delivery,
    devices: Vec<DeviceRecord<'a>>,
}

#[derive(Serialize)]
struct ReasonRecord {
    reason: String,
    files: u64,
}

#[derive(Serialize)]
struct DeviceRecord<'a> {
    device: &'a str,
    bytes: u64,
}

#[derive(Serialize)]
struct Delivery {
    #[serde(skip_serializing_if = "Option::is_none")]
    linear: Option<Times>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<Times>,
}

impl Delivery {
    /// By one plan, if `only` that was asked for.
    fn new(linear: DeliveryTime, best: DeliveryTime, only: Option<PlanFlag>) -> Self {
        Self {
            linear: (only != Some(PlanFlag::Best)).then(|| linear.into()),
            best: (only != Some(PlanFlag::Linear)).then(|| best.into()),
        }
    }
}

#[derive(Serialize)]
struct Times {
    p50_s: f64,
    p90_s: f64,
    unknown_bytes: u64,
}

impl From<DeliveryTime> for Times {
    fn from(time: DeliveryTime) -> Self {
        Self { p50_s: time.p50, p90_s: time.p90, unknown_bytes: time.unknown_bytes }
    }
}

/// Written one by one: a file may be in a million pieces.
struct SledList<'a>(&'a [Sled]);

impl Serialize for SledList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for sled in self.0 {
            list.serialize_element(&SledRecord {
                offset: sled.offset,
                length: sled.length,
                place: json::place(sled.place),
                device: sled.device.name(),
                latency_s: sled.estimate.map(|estimate| estimate.latency.into()),
                bandwidth: sled
                    .estimate
                    .and_then(|estimate| estimate.known_bandwidth())
                    .map(Quantity::from),
            })?;
        }
        list.end()
    }
}

#[derive(Serialize)]
struct SledRecord<'a> {
    offset: u64,
    length: u64,
    place: &'static str,
    device: &'a str,
    latency_s: Option<Quantity>,
    bandwidth: Option<Quantity>,
}

pub(super) fn file<'a>(report: &Report<'a>, plan: Option<PlanFlag>) -> FileRecord<'a> {
    let shares = Shares::of(report.sleds);
    let [linear, best] = [Plan::Linear, Plan::Best].map(|plan| delivery_time(report.sleds, plan));
    FileRecord {
        r#type: "file",
        path: Name::new(report.path),
        bytes: shares.total(),
        shares,
        reason: report.reason.as_ref().map(ToString::to_string),
        delivery: Delivery::new(linear, best, plan),
        sleds: SledList(report.sleds),
    }
}

/// Of a folder, or of a file of which only the sums are wanted.
pub(super) fn tree<'a>(
    r#type: &'static str,
    path: &'a Path,
    tree: &'a Tree,
    plan: Option<PlanFlag>,
) -> TreeRecord<'a> {
    let reason = |(reason, files): &(Reason, u64)| ReasonRecord {
        reason: reason.to_string(),
        files: *files,
    };
    TreeRecord {
        r#type,
        path: Name::new(path),
        files: tree.files,
        bytes: tree.shares.total(),
        shares: tree.shares,
        reasons: tree.reasons.iter().map(reason).collect(),
        delivery: Delivery::new(tree.linear, tree.best, plan),
        devices: tree
            .devices
            .iter()
            .map(|(device, bytes)| DeviceRecord { device: device.name(), bytes: *bytes })
            .collect(),
    }
}
