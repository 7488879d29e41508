//! The command `slowfs`: mounts, stays in the foreground, unmounts when it is told to end.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use slowfs::{Mount, Options, Preset, Profile, Rule};

/// Shows a directory through a slow device: a FUSE pass-through with the latency, bandwidth and
/// faults you ask for.
///
/// Prints `mounted` when the mount is usable, and unmounts on SIGTERM, SIGINT and SIGHUP.
///
/// A rule is `PATTERN: key=value, key=value`. A pattern without a slash is about file names in any
/// directory. The first rule that matches a file applies; --as, --latency, --seek, --bandwidth,
/// --jitter and --parallel make a last rule for all other files. All files of a rule share one
/// device: its queue, its bandwidth, and the numbers of its reads.
///
/// Keys: latency (of every read, overlapping), seek (to the first byte, of a read that continues no
/// stream), bandwidth (bytes/s), jitter, parallel (requests served at once), streams (per file that
/// are followed without seeks), slack (bytes from a stream's end that still continue it), metadata
/// (delay of look-ups, opens, listings), opens=each|first|never (which of them are delayed),
/// writes=slow|free, hang=true, as=PRESET, and faults: fail=N (EIO on the N-th read), fail=N+ (and all after it), `fail_at=OFFSET`, stall=N:TIME,
/// stall=N:forever, short=N, late=N (ETIMEDOUT on the N-th look-up).
///
/// While mounted: read .slowfs/stats, write .slowfs/reset, read or write .slowfs/rules below the
/// mount point.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The directory to show
    source: PathBuf,
    /// The directory to mount on
    mountpoint: PathBuf,
    /// A rule for the files that match a pattern; can be given several times
    #[arg(long = "rule", value_name = "PATTERN: KEY=VALUE, ...")]
    rules: Vec<Rule>,
    /// A device of the SLEDs paper's Table 2 for all other files: nfs (270 ms, 1.0 MB/s), cdrom
    /// (130 ms, 2.8 MB/s), disk (18 ms, 9.0 MB/s), or tape (60 s, 5.0 MB/s)
    #[arg(long = "as", value_name = "PRESET")]
    preset: Option<Preset>,
    /// Delay of every read, such as 1ms
    #[arg(long, value_name = "TIME")]
    latency: Option<String>,
    /// Latency to the first byte, such as 8ms
    #[arg(long, value_name = "TIME")]
    seek: Option<String>,
    /// Bytes per second, such as 50M
    #[arg(long, value_name = "BYTES")]
    bandwidth: Option<String>,
    /// By how much times vary, such as 10%
    #[arg(long, value_name = "SHARE")]
    jitter: Option<String>,
    /// Requests served at once
    #[arg(long, value_name = "N")]
    parallel: Option<String>,
    /// Seed of the jitter
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Divides all times by this
    #[arg(long, value_name = "K", default_value_t = 1.0, value_parser = positive)]
    speed_up: f64,
    /// Lets the kernel drop a file's cached pages at every open
    #[arg(long)]
    no_keep_cache: bool,
    /// The kernel's readahead window (128 KiB if not given)
    #[arg(long, value_name = "BYTES")]
    max_readahead: Option<u32>,
    /// How long the kernel believes names and attributes, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = positive_or_zero)]
    time_to_live: f64,
}

fn positive(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|n: &f64| n.is_finite() && *n > 0.0)
        .ok_or_else(|| "expected a number above 0".into())
}

fn positive_or_zero(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|n| (0.0..=1e9).contains(n))
        .ok_or_else(|| "expected a number from 0 to 1e9".into())
}

impl Args {
    fn options(&self) -> Result<Options, slowfs::RuleError> {
        let mut rules = self.rules.clone();
        let settings = [
            ("latency", &self.latency),
            ("seek", &self.seek),
            ("bandwidth", &self.bandwidth),
            ("jitter", &self.jitter),
            ("parallel", &self.parallel),
        ];
        let mut profile = self.preset.map_or_else(Profile::default, Preset::profile);
        for (key, value) in settings {
            if let Some(value) = value {
                profile.set(key, value)?;
            }
        }
        rules.push(Rule::all(profile));
        Ok(Options {
            rules,
            seed: self.seed,
            speed_up: self.speed_up,
            keep_cache: !self.no_keep_cache,
            readahead_bytes_max: self.max_readahead,
            time_to_live: Duration::from_secs_f64(self.time_to_live),
            ..Options::default()
        })
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    // Before the mount, so that no signal in between leaves it behind.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot catch signals")?;
    let mount = Arc::new(Mount::new(&args.source, &args.mountpoint, args.options()?)?);
    let to_unmount = Arc::clone(&mount);
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if let Err(error) = to_unmount.unmount() {
                writeln!(io::stderr().lock(), "slowfs: {error}").ok();
            }
        }
    });
    let mut stdout = io::stdout().lock();
    // Whoever started us may not listen.
    writeln!(stdout, "mounted {}", mount.path().display()).and_then(|()| stdout.flush()).ok();
    mount.wait();
    Ok(mount.unmount()?)
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr().lock(), "slowfs: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}
