//! The JSON object of a device; `docs/json.md` describes it.

use serde::Serialize;

use super::row::{Row, Source};
use crate::json::{Name, Quantity};

#[derive(Serialize)]
pub(crate) struct DeviceRecord<'a> {
    r#type: &'static str,
    device: &'a str,
    mount_points: Vec<Name<'a>>,
    source: &'static str,
    updated_unix_s: Option<u64>,
    keeps_cache: Option<bool>,
    latency_s: Option<Quantity>,
    bandwidth: Option<Bandwidths>,
}

#[derive(Serialize)]
struct Bandwidths {
    small: Quantity,
    medium: Quantity,
    large: Quantity,
}

pub(crate) fn device(row: &Row) -> DeviceRecord<'_> {
    DeviceRecord {
        r#type: "device",
        device: row.device.name(),
        mount_points: row.mount_points.iter().map(Name::new).collect(),
        source: match row.source {
            Source::Measured => "measured",
            Source::NfsStatistics => "nfs_statistics",
            Source::Given => "given",
            Source::Assumed => "assumed",
            Source::AnotherDisk => "another_disk",
            Source::Unknown => "unknown",
        },
        updated_unix_s: row.updated_s,
        keeps_cache: row.keeps_cache,
        latency_s: row.latency.map(Into::into),
        bandwidth: row.bandwidths.map(|bandwidths| {
            let [small, medium, large] = bandwidths.map(Into::into);
            Bandwidths { small, medium, large }
        }),
    }
}
