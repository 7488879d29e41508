//! What is asked of which files: a path pattern, a profile of delays, and faults.
//!
//! Text form: `PATTERN: key=value, key=value`. How a profile turns into delays is in `device.rs`.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use globset::{GlobBuilder, GlobMatcher};

use crate::units::{parse_bytes, parse_share, parse_time, parse_whole_bytes};

/// A profile for the files whose path matches a pattern; one rule is one device.
///
/// All files of a rule share its device: its queue, its bandwidth and the numbering of its reads.
///
/// ```
/// let rule: slowfs::Rule = "*.img: seek=8ms, bandwidth=50M, fail=3".parse()?;
/// assert_eq!(rule.profile.seek, std::time::Duration::from_millis(8));
/// # Ok::<(), slowfs::RuleError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Rule {
    pattern: String,
    matcher: GlobMatcher,
    /// The delays and faults of the rule.
    pub profile: Profile,
}

impl Rule {
    /// A rule for the paths that match `pattern`.
    ///
    /// The pattern is a glob over the path relative to the mount point: `*` and `?` stay within a
    /// component, `**` crosses them. A pattern without a slash is matched against the last
    /// component alone, as in a `.gitignore`, so `*` means every file.
    pub fn new(pattern: &str, profile: Profile) -> Result<Self, RuleError> {
        let matcher = GlobBuilder::new(pattern.trim_start_matches('/'))
            .literal_separator(true)
            .build()
            .map_err(|source| RuleError::Pattern { pattern: pattern.to_owned(), source })?
            .compile_matcher();
        Ok(Self { pattern: pattern.to_owned(), matcher, profile })
    }

    /// A rule for every file.
    pub fn all(profile: Profile) -> Self {
        Self::new("*", profile).expect("`*` is a valid glob")
    }

    /// The pattern as given.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Whether the rule is about `path`, which is relative to the mount point (the root is empty).
    pub fn matches(&self, path: &Path) -> bool {
        if self.pattern.contains('/') {
            self.matcher.is_match(path)
        } else {
            self.matcher.is_match(path.file_name().unwrap_or(OsStr::new("")))
        }
    }
}

/// How slow a device is, and how it fails.
///
/// The default is a device that costs nothing and never fails.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Added to every read, without keeping the device busy: the time on the wire.
    pub latency: Duration,
    /// Latency to the first byte, charged to a read that continues no known stream of its file.
    pub seek: Duration,
    /// Bytes per second that one server of the device delivers; `None` is without limit.
    pub bandwidth: Option<f64>,
    /// Every time is multiplied by a number drawn evenly from `1 - jitter ..= 1 + jitter`.
    pub jitter: f64,
    /// How many requests the device serves at once, each with the whole bandwidth.
    pub parallel: usize,
    /// How many sequential streams per file the device can follow without a seek between them.
    pub streams: usize,
    /// How far, in bytes, a read may begin from the end of a stream and still continue it.
    pub slack: u64,
    /// Added to look-ups, opens, listings and requests for attributes.
    pub metadata: Duration,
    /// Which opens of a file are charged as metadata.
    pub opens: Opens,
    /// Whether writes are charged like reads; by default they are free, so that files are made quickly.
    pub slow_writes: bool,
    /// Whether reads, writes, look-ups, opens, closes, listings and requests for attributes hang until the
    /// rules change or the file system is unmounted. Whoever waits cannot be killed, as on a dead
    /// hard-mounted NFS server.
    pub hang: bool,
    /// What goes wrong; numbers count the reads of this rule from 1, since mount, reset or new rules.
    pub faults: Vec<Fault>,
}

/// Which opens of a file its device is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Opens {
    /// Each: NFS without delegations.
    #[default]
    Each,
    /// The first since mount, reset or new rules: then the file is delegated, as by NFS version 4.
    First,
    /// None: NFS version 2, and most local file systems.
    Never,
}

impl FromStr for Opens {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "each" => Ok(Self::Each),
            "first" => Ok(Self::First),
            "never" => Ok(Self::Never),
            _ => Err(format!("`{text}`: expected each, first or never")),
        }
    }
}

impl fmt::Display for Opens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Each => "each",
            Self::First => "first",
            Self::Never => "never",
        })
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            seek: Duration::ZERO,
            bandwidth: None,
            jitter: 0.0,
            parallel: 1,
            streams: 4,
            // Two readahead windows of FUSE's default size, 128 KiB each.
            slack: 256 * 1024,
            metadata: Duration::ZERO,
            opens: Opens::Each,
            slow_writes: false,
            hang: false,
            faults: Vec::new(),
        }
    }
}

impl Profile {
    /// The same device with all times divided by `factor`.
    #[must_use]
    pub fn sped_up(mut self, factor: f64) -> Self {
        for time in [&mut self.latency, &mut self.seek, &mut self.metadata] {
            *time = time.div_f64(factor);
        }
        self.bandwidth = self.bandwidth.map(|bandwidth| bandwidth * factor);
        for fault in &mut self.faults {
            if let Fault::Stall { time: Some(time), .. } = fault {
                *time = time.div_f64(factor);
            }
        }
        self
    }
}

/// One thing that goes wrong.
///
/// The kernel's readahead hides an error that happens once: it asks again when a reader needs the
/// page. A reader sees the fault for certain with `O_DIRECT`, with [`Fault::FailFrom`] or with
/// [`Fault::FailAt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The read with this number fails with `EIO`.
    Fail(u64),
    /// The read with this number and all after it fail with `EIO`.
    FailFrom(u64),
    /// Every read that covers this offset fails with `EIO`.
    FailAt(u64),
    /// The read with number `read` takes `time` longer, or hangs as [`Profile::hang`] does if `None`.
    Stall {
        /// Which read.
        read: u64,
        /// How long; `None` is for ever.
        time: Option<Duration>,
    },
    /// The read with this number returns half of what it should. To the page cache that is a file
    /// that ended there, until the kernel next asks for its size; for an `O_DIRECT` reader the
    /// kernel asks for the rest.
    Short(u64),
    /// The look-up with this number, counted as reads are, fails with `ETIMEDOUT`, as of an NFS mount
    /// with `softerr` whose server is away.
    Late(u64),
}

/// Devices with the latency and bandwidth of the SLEDs paper (OSDI 2000), Table 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// 270 ms, 1.0 MB/s.
    Nfs,
    /// 130 ms, 2.8 MB/s, one head.
    Cdrom,
    /// 18 ms, 9.0 MB/s, one head.
    Disk,
    /// 60 s, 5.0 MB/s, one head: not in the table; a DLT drive of that time with its tape to be
    /// mounted (the paper's "hundreds of seconds" is the worst case).
    Tape,
}

impl Preset {
    /// The profile of the device.
    pub fn profile(self) -> Profile {
        let (seek_ms, bandwidth, streams) = match self {
            Self::Nfs => (270, 1.0e6, Profile::default().streams),
            Self::Cdrom => (130, 2.8e6, 1),
            Self::Disk => (18, 9.0e6, 1),
            Self::Tape => (60_000, 5.0e6, 1),
        };
        Profile {
            seek: Duration::from_millis(seek_ms),
            bandwidth: Some(bandwidth),
            streams,
            ..Profile::default()
        }
    }
}

impl FromStr for Preset {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        match text {
            "nfs" => Ok(Self::Nfs),
            "cdrom" => Ok(Self::Cdrom),
            "disk" => Ok(Self::Disk),
            "tape" => Ok(Self::Tape),
            _ => Err(RuleError::value(
                "as",
                format!("`{text}` is no preset: expected nfs, cdrom, disk or tape"),
            )),
        }
    }
}

/// A rule that could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The pattern is not a glob.
    #[error("pattern `{pattern}`: {source}")]
    Pattern {
        /// The pattern as given.
        pattern: String,
        /// What the glob parser says.
        source: globset::Error,
    },
    /// There is no `PATTERN:` in front.
    #[error("`{0}`: expected `PATTERN: key=value, key=value`")]
    Form(String),
    /// A key that does not exist.
    #[error(
        "`{0}` is no key: expected as, latency, seek, bandwidth, jitter, parallel, streams, slack, \
         metadata, opens, writes, hang, fail, fail_at, stall, short or late"
    )]
    Key(String),
    /// A value that its key does not take.
    #[error("{key}: {reason}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong with the value.
        reason: String,
    },
}

impl RuleError {
    fn value(key: &str, reason: String) -> Self {
        Self::Value { key: key.to_owned(), reason }
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (pattern, settings) = text
            .rsplit_once(": ")
            .or_else(|| text.split_once(':'))
            .ok_or_else(|| RuleError::Form(text.to_owned()))?;
        Self::new(pattern.trim(), settings.parse()?)
    }
}

impl FromStr for Profile {
    type Err = RuleError;

    /// Reads `key=value, key=value`; a later key overrides an earlier one, except for faults, which add up.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        let mut profile = Self::default();
        for setting in text.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
            let (key, value) =
                setting.split_once('=').ok_or_else(|| RuleError::Key(setting.to_owned()))?;
            profile.set(key.trim(), value.trim())?;
        }
        Ok(profile)
    }
}

impl Profile {
    /// Sets one key of the text form.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), RuleError> {
        let wrong = |reason| RuleError::value(key, reason);
        match key {
            "as" => {
                let faults = std::mem::take(&mut self.faults);
                *self = Self { faults, ..value.parse::<Preset>()?.profile() };
            }
            "latency" => self.latency = parse_time(value).map_err(wrong)?,
            "seek" => self.seek = parse_time(value).map_err(wrong)?,
            "metadata" => self.metadata = parse_time(value).map_err(wrong)?,
            "bandwidth" => {
                let bandwidth = parse_bytes(value).map_err(wrong)?;
                self.bandwidth = (bandwidth > 0.0).then_some(bandwidth);
            }
            "jitter" => self.jitter = parse_share(value).map_err(wrong)?,
            "parallel" => self.parallel = at_least_one(value).map_err(wrong)?,
            "streams" => self.streams = at_least_one(value).map_err(wrong)?,
            "slack" => self.slack = parse_whole_bytes(value).map_err(wrong)?,
            "opens" => self.opens = value.parse().map_err(wrong)?,
            "writes" => {
                self.slow_writes = match value {
                    "slow" => true,
                    "free" => false,
                    _ => return Err(wrong(format!("`{value}`: expected slow or free"))),
                }
            }
            "hang" => {
                self.hang = value
                    .parse()
                    .map_err(|_| wrong(format!("`{value}`: expected true or false")))?;
            }
            "fail" => self.faults.push(match value.strip_suffix('+') {
                Some(number) => Fault::FailFrom(read_number(number).map_err(wrong)?),
                None => Fault::Fail(read_number(value).map_err(wrong)?),
            }),
            "fail_at" => self.faults.push(Fault::FailAt(parse_whole_bytes(value).map_err(wrong)?)),
            "late" => self.faults.push(Fault::Late(read_number(value).map_err(wrong)?)),
            "short" => self.faults.push(Fault::Short(read_number(value).map_err(wrong)?)),
            "stall" => {
                let (read, time) = value.split_once(':').ok_or_else(|| {
                    wrong(format!("`{value}`: expected READ:TIME or READ:forever"))
                })?;
                let time = match time {
                    "forever" => None,
                    seconds if seconds.bytes().all(|b| b.is_ascii_digit() || b == b'.') => {
                        Some(parse_time(&format!("{seconds}s")).map_err(wrong)?)
                    }
                    time => Some(parse_time(time).map_err(wrong)?),
                };
                self.faults.push(Fault::Stall { read: read_number(read).map_err(wrong)?, time });
            }
            _ => return Err(RuleError::Key(key.to_owned())),
        }
        Ok(())
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| format!("`{text}`: expected 1 or more"))
}

fn read_number(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|&n| n > 0)
        .ok_or_else(|| format!("`{text}`: reads are numbered from 1"))
}

impl fmt::Display for Rule {
    /// The text form, which parses back to an equal rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pattern, self.profile)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = |time: Duration| format!("{}ns", time.as_nanos());
        write!(f, "latency={}, seek={}", ns(self.latency), ns(self.seek))?;
        write!(f, ", bandwidth={}, jitter={}", self.bandwidth.unwrap_or(0.0), self.jitter)?;
        write!(f, ", parallel={}, streams={}", self.parallel, self.streams)?;
        write!(f, ", slack={}, metadata={}", self.slack, ns(self.metadata))?;
        write!(f, ", opens={}", self.opens)?;
        write!(f, ", writes={}", if self.slow_writes { "slow" } else { "free" })?;
        write!(f, ", hang={}", self.hang)?;
        for fault in &self.faults {
            match fault {
                Fault::Fail(read) => write!(f, ", fail={read}")?,
                Fault::FailFrom(read) => write!(f, ", fail={read}+")?,
                Fault::FailAt(offset) => write!(f, ", fail_at={offset}")?,
                Fault::Stall { read, time: Some(time) } => {
                    write!(f, ", stall={read}:{}", ns(*time))?;
                }
                Fault::Stall { read, time: None } => write!(f, ", stall={read}:forever")?,
                Fault::Short(read) => write!(f, ", short={read}")?,
                Fault::Late(look) => write!(f, ", late={look}")?,
            }
        }
        Ok(())
    }
}

/// Reads rules, one a line or separated by semicolons; empty lines and lines that begin with `#` are skipped.
pub fn parse_rules(text: &str) -> Result<Vec<Rule>, RuleError> {
    text.split(['\n', ';'])
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::parse)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_parses_back() {
        let text = "data/**: as=cdrom, latency=1ms, jitter=10%, parallel=2, slack=64Ki, opens=first, \
                    writes=slow, \
                    fail=3, fail=7+, fail_at=1Mi, stall=2:1.5, stall=4:forever, short=9, late=2";
        let rule: Rule = text.parse().unwrap();
        let again: Rule = rule.to_string().parse().unwrap();
        assert_eq!(again.pattern(), "data/**");
        assert_eq!(again.profile, rule.profile);
        assert_eq!(rule.profile.seek, Duration::from_millis(130));
        assert_eq!(rule.profile.faults.len(), 7);
        assert!(
            rule.profile
                .faults
                .contains(&Fault::Stall { read: 2, time: Some(Duration::from_millis(1500)) })
        );
    }

    #[test]
    fn a_pattern_without_a_slash_is_about_the_name() {
        let image: Rule = "*.img:".parse().unwrap();
        assert!(image.matches(Path::new("a/b/x.img")));
        assert!(!image.matches(Path::new("a/x.img/y")));
        let below: Rule = "a/*:".parse().unwrap();
        assert!(below.matches(Path::new("a/x")));
        assert!(!below.matches(Path::new("a/b/x")));
        assert!(Rule::all(Profile::default()).matches(Path::new("")));
    }

    #[test]
    fn mistakes_name_what_is_accepted() {
        for (text, part) in [
            ("latency=1ms", "PATTERN"),
            ("*: speed=1", "latency"),
            ("*: seek=8", "270ms"),
            ("*: fail=0", "from 1"),
            ("*: as=floppy", "cdrom"),
        ] {
            let message = text.parse::<Rule>().unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn speeding_up_divides_times_and_multiplies_bandwidth() {
        let profile = Preset::Nfs.profile().sped_up(10.0);
        assert_eq!(profile.seek, Duration::from_millis(27));
        assert_eq!(profile.bandwidth, Some(1.0e7));
    }
}
