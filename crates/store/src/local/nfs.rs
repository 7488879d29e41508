//! What the kernel measured of its NFS mounts: `/proc/self/mountstats`.

use std::collections::BTreeMap;

use sled::{Device, DeviceTable, Observation};

/// Fewest READ calls that say something about a server.
const CALLS_MIN: u64 = 16;

/// What one NFS mount's READ calls took on average.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Reads {
    bytes_per_call: f64,
    round_trip_s: f64,
    whole_s: f64,
}

/// Fills in NFS servers that `table` knows nothing of from the kernel's own statistics.
pub(crate) fn fill_in(table: &mut DeviceTable, mountstats: &str) {
    for (source, reads) in parse(mountstats) {
        let device = Device::new(format!("nfs:{source}"));
        if table.estimate(&device, 1).is_some() {
            continue;
        }
        // The round trip includes the transfer, so it stands for the latency
        // of small reads and bounds the bandwidth of one stream from below.
        let bytes = reads.bytes_per_call.max(1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the mean size of a read, at least 1"
        )]
        let bytes = bytes as u64;
        let first_byte = Some(reads.round_trip_s);
        let whole = reads.round_trip_s + reads.whole_s.max(reads.round_trip_s);
        table.observe(&device, Observation { bytes, first_byte, whole });
    }
}

/// Fields of an operation: calls, transmissions, timeouts, bytes sent, bytes
/// received, then milliseconds queued, of round trip, and in all.
fn parse(text: &str) -> BTreeMap<String, Reads> {
    let mut found = BTreeMap::new();
    let mut source: Option<&str> = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["device", device, "mounted", "on", _, "with", "fstype", kind, ..] => {
                source = kind.starts_with("nfs").then_some(*device);
            }
            ["READ:", rest @ ..] => {
                let numbers: Vec<u64> = rest.iter().map_while(|word| word.parse().ok()).collect();
                if let (Some(source), [calls, _, _, _, received, _, trip_ms, all_ms, ..]) =
                    (source, numbers.as_slice())
                    && *calls >= CALLS_MIN
                {
                    let per_call = |total: &u64| *total as f64 / *calls as f64;
                    found.insert(
                        source.to_owned(),
                        Reads {
                            bytes_per_call: per_call(received),
                            round_trip_s: (per_call(trip_ms) / 1e3).max(1e-6),
                            whole_s: (per_call(all_ms) / 1e3).max(1e-6),
                        },
                    );
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shaped as Linux 6.1 prints it, shortened.
    const TEXT: &str = "\
device /dev/vda mounted on / with fstype ext4
device filer:/export mounted on /srv with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 1000 1000 0 220000 65636000 120 2000 2150 0
\t       WRITE: 0 0 0 0 0 0 0 0 0
device idle:/e mounted on /idle with fstype nfs statvers=1.1
\t        READ: 3 3 0 1 1 1 1 1 0
";

    #[test]
    fn round_trips_of_reads_become_latencies() {
        let mut table = DeviceTable::default();
        fill_in(&mut table, TEXT);
        let estimate = table.estimate(&Device::new("nfs:filer:/export"), 1).expect("it has reads");
        assert!((estimate.latency.p50 - 0.002).abs() < 1e-9, "{estimate:?}");
        assert_eq!(table.devices().count(), 1);
    }

    #[test]
    fn what_reads_taught_is_not_overwritten() {
        let mut table = DeviceTable::default();
        let device = Device::new("nfs:filer:/export");
        assert!(table.fill(&device, 0.5, 1e6));
        let before = table.clone();
        fill_in(&mut table, TEXT);
        assert_eq!(table, before);
    }
}
