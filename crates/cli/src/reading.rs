//! How the bytes of files came to `grep` and `wc`, as `--stats` says it.

use nearfirst::fetch::ScanReport;

use crate::messages;

/// How the bytes came, over all files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// Sums of the scans' reports.
    scans: ScanReport,
    /// Bytes of files and streams that were read through, without asking where they were.
    pub(crate) read_through: u64,
    /// Whether the time saved by some file is not in the sum, because nobody knows it.
    saved_unknown: bool,
}

impl Reading {
    /// Adds a file that was read near first.
    pub(crate) fn add_scan(&mut self, scan: &ScanReport) {
        self.scans.near_bytes += scan.near_bytes;
        self.scans.hole_bytes += scan.hole_bytes;
        self.scans.saved_bytes += scan.saved_bytes;
        if scan.saved_bytes > 0 {
            match scan.saved_s {
                Some(seconds) => *self.scans.saved_s.get_or_insert_default() += seconds,
                None => self.saved_unknown = true,
            }
        }
        self.scans.far_bytes += scan.far_bytes;
        self.scans.unknown_bytes += scan.unknown_bytes;
        self.scans.waited += scan.waited;
        self.scans.elapsed += scan.elapsed;
        self.scans.told.p50 += scan.told.p50;
    }

    /// Whether nothing was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.scans.near_bytes + self.scans.far_bytes + self.read_through == 0
    }

    /// Says all of it.
    pub(crate) fn say(&self) {
        let Self { scans, read_through, saved_unknown } = self;
        messages::note(format_args!(
            "{} bytes in memory, {} in holes, {} fetched, {} read without knowing where they were; \
             waited {:.3} s for the device, {:.3} s in all, {:.3} s expected",
            scans.near_bytes - scans.hole_bytes,
            scans.hole_bytes,
            scans.far_bytes - scans.unknown_bytes,
            read_through + scans.unknown_bytes,
            scans.waited.as_secs_f64(),
            scans.elapsed.as_secs_f64(),
            scans.told.p50,
        ));
        let bytes = scans.saved_bytes;
        if bytes == 0 {
            return;
        }
        let device = match (scans.saved_s, saved_unknown) {
            (None, true) => "whose speed is unknown".to_owned(),
            (Some(seconds), true) => {
                format!(
                    "which reads them in about {seconds:.3} s, and more where its speed is unknown"
                )
            }
            (seconds, false) => {
                format!("which reads them in about {:.3} s", seconds.unwrap_or_default())
            }
        };
        // Of a file that is all in memory it is so with any program: nothing is said to be saved.
        messages::note(format_args!(
            "being in memory, {bytes} bytes were not read from the device, {device}"
        ));
    }
}
