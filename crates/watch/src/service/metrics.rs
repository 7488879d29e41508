//! What was seen and what came of it, as numbers for a monitor: a file in the text format of Prometheus, as
//! the textfile collector of its `node_exporter` reads it.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tree::User;

use super::counts::{COUNTED, Counts};

/// How often the file is written: more often than it is read, usually.
const EVERY: Duration = Duration::from_secs(5);

/// Stands for all users who are not counted by themselves: it is the number of none.
pub(crate) const OTHERS: User = User(u32::MAX);

/// A number of the whole service: its name, what it is, and how much.
pub(crate) type Number = (&'static str, &'static str, u64);

/// The file.
#[derive(Debug)]
pub(crate) struct Metrics {
    file: PathBuf,
    written_at: Option<Duration>,
    /// Whether it was said that it cannot be written: once, not each time until somebody comes.
    is_said: bool,
}

impl Metrics {
    /// Fails where something lies in the file's place that must not be replaced, and where its folder is
    /// missing.
    pub(crate) fn new(file: PathBuf) -> io::Result<Self> {
        may_be_replaced(&file)?;
        if !file.parent().is_some_and(Path::is_dir) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "its folder is missing"));
        }
        Ok(Self { file, written_at: None, is_said: false })
    }

    pub(crate) fn are_due(&self, now: Duration) -> bool {
        self.written_at.is_none_or(|at| now.saturating_sub(at) >= EVERY)
    }

    /// Writes the file anew; what keeps it from being written goes to `say`.
    pub(crate) fn write(&mut self, text: &str, now: Duration, say: &mut dyn FnMut(String)) {
        self.written_at = Some(now);
        let written = self.replace(text);
        if let Err(error) = &written
            && !self.is_said
        {
            say(format!("{}: {}", self.file.display(), store::io_reason(error)));
        }
        self.is_said = written.is_err();
    }

    /// Whoever reads it meanwhile has the one or the other, whole.
    fn replace(&self, text: &str) -> io::Result<()> {
        may_be_replaced(&self.file)?;
        let mut part = self.file.clone().into_os_string();
        part.push(".part");
        // One who was killed may have left it.
        drop(fs::remove_file(&part));
        let written = File::options().write(true).create_new(true).mode(0o644).open(&part);
        let done = written
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&part, &self.file));
        if done.is_err() {
            drop(fs::remove_file(&part));
        }
        done
    }
}

/// What is no regular file, as `/dev/stdout`, would be one for everybody once it was replaced; and of a link
/// the link is replaced, never what it leads to.
fn may_be_replaced(file: &Path) -> io::Result<()> {
    let is_another = fs::symlink_metadata(file).is_ok_and(|metadata| !metadata.is_file());
    if is_another {
        return Err(io::Error::other("no regular file, and so it is not replaced by one"));
    }
    Ok(())
}

/// All numbers, as Prometheus reads them.
pub(crate) fn text(numbers: &[Number], users: &BTreeMap<User, Counts>) -> String {
    let mut text = String::new();
    for (name, help, value) in numbers {
        begin(&mut text, name, help);
        sample(&mut text, name, "", value);
    }
    for (index, counted) in COUNTED.iter().enumerate() {
        begin(&mut text, counted.name, counted.help);
        for (user, counts) in users {
            let user = if *user == OTHERS { "others".into() } else { user.0.to_string() };
            let (labels, value) = (format!("{{user=\"{user}\"}}"), counts.0[index]);
            if counted.name.ends_with("_seconds_total") {
                sample(&mut text, counted.name, &labels, value as f64 / 1e6);
            } else {
                sample(&mut text, counted.name, &labels, value);
            }
        }
    }
    text
}

fn begin(text: &mut String, name: &str, help: &str) {
    let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a string takes all");
}

fn sample(text: &mut String, name: &str, labels: &str, value: impl Display) {
    writeln!(text, "{name}{labels} {value}").expect("a string takes all");
}

#[cfg(test)]
mod tests {
    use testkit::Dir;
    use tree::Account;

    use super::*;
    use crate::Carried;

    #[test]
    fn numbers_are_written_as_prometheus_reads_them() {
        let account = Account { runs: 3, saved: Duration::from_millis(1500), ..Account::default() };
        let counts = Counts::of(&account, &Carried { fetched_bytes: 7, ..Carried::default() });
        let users = BTreeMap::from([(User(1000), counts), (OTHERS, Counts::default())]);
        let text = text(&[("nearfirst_attendants", "Attendants.", 1)], &users);
        let expected = "# HELP nearfirst_attendants Attendants.\n# TYPE nearfirst_attendants gauge\n\
             nearfirst_attendants 1\n# HELP nearfirst_runs_total Runs of programs that ended.\n\
             # TYPE nearfirst_runs_total counter\nnearfirst_runs_total{user=\"1000\"} 3\n\
             nearfirst_runs_total{user=\"others\"} 0\n";
        assert!(text.starts_with(expected), "{text}");
        for sample in
            ["saved_seconds_total{user=\"1000\"} 1.5", "fetched_bytes_total{user=\"1000\"} 7"]
        {
            assert!(text.contains(&format!("\nnearfirst_{sample}\n")), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_said_once_and_leaves_nothing() {
        let dir = Dir::new();
        let mut said = Vec::new();
        let error = Metrics::new(dir.join("metrics/nearfirst.prom")).expect_err("it has no folder");
        assert_eq!(error.to_string(), "its folder is missing");
        let folder = dir.create_dir("metrics");
        let mut metrics = Metrics::new(folder.join("nearfirst.prom")).expect("none is there");
        fs::remove_dir(&folder).expect("ours");
        let mut write = |text, said: &mut Vec<String>| {
            metrics.write(text, Duration::ZERO, &mut |line| said.push(line));
        };
        write("one\n", &mut said);
        write("two\n", &mut said);
        assert!(said.len() == 1 && said[0].ends_with(": No such file or directory"), "{said:?}");
        dir.create_dir("metrics");
        let left = dir.create("metrics/nearfirst.prom.part", "of one who was killed");
        write("three\n", &mut said);
        write("four\n", &mut said);
        assert_eq!(fs::read_to_string(folder.join("nearfirst.prom")).expect("written"), "four\n");
        assert!(!left.exists() && said.len() == 1, "{said:?}");
        fs::remove_dir_all(folder).expect("ours");
        write("five\n", &mut said);
        assert_eq!(said.len(), 2, "it was well in between");
    }

    #[test]
    fn what_is_no_regular_file_is_not_replaced() {
        let dir = Dir::new();
        let (fifo, target) = (dir.join("fifo"), dir.create("target", "before"));
        let link = dir.link("link", &target);
        let mut said = Vec::new();
        let mut metrics = Metrics::new(fifo.clone()).expect("none is there");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).expect("made");
        metrics.write("one\n", Duration::ZERO, &mut |line| said.push(line));
        assert!(said.len() == 1 && said[0].contains("fifo: no regular file"), "{said:?}");
        for file in [&fifo, &link, &dir.create_dir("folder")] {
            let error = Metrics::new(file.clone()).expect_err("it would be replaced");
            assert!(error.to_string().starts_with("no regular file"), "{error}");
        }
        assert!(fifo.exists() && !fifo.is_file() && link.is_symlink());
        assert_eq!(fs::read_to_string(target).expect("there"), "before");
    }
}
