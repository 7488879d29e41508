//! Whether this machine runs on a battery.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an answer holds: some machines ask a slow controller for it.
const HOLDS: Duration = Duration::from_secs(10);

/// What the kernel last said of what supplies the machine.
#[derive(Debug)]
pub struct Power {
    folder: PathBuf,
    asked: Option<Duration>,
    is_on_battery: bool,
}

impl Default for Power {
    fn default() -> Self {
        Self::by("/sys/class/power_supply")
    }
}

impl Power {
    /// By a folder with a folder for each supply.
    pub fn by(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), asked: None, is_on_battery: false }
    }

    /// Whether the machine runs on a battery at `now`; not where nobody tells.
    pub fn is_on_battery(&mut self, now: Duration) -> bool {
        if self.asked.is_none_or(|asked| now.saturating_sub(asked) >= HOLDS) {
            self.asked = Some(now);
            self.is_on_battery = is_on_battery(&self.folder);
        }
        self.is_on_battery
    }
}

/// Whether a battery gives power and nothing else does. That of a mouse or the like says nothing.
fn is_on_battery(folder: &Path) -> bool {
    let says = |supply: &Path, name: &str, what: &str| {
        fs::read_to_string(supply.join(name)).is_ok_and(|said| said.trim() == what)
    };
    let supplies = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let (batteries, others): (Vec<_>, Vec<_>) = supplies
        .filter(|supply| !says(supply, "scope", "Device"))
        .partition(|supply| says(supply, "type", "Battery"));
    // Of USB, other numbers than 1 say how it gives power.
    let gives = |supply: &PathBuf| {
        fs::read_to_string(supply.join("online")).is_ok_and(|said| said.trim() != "0")
    };
    !others.iter().any(gives)
        && batteries.iter().any(|battery| says(battery, "status", "Discharging"))
}

#[cfg(test)]
mod tests {
    use testkit::Dir;

    use super::*;

    fn add(dir: &Dir, supply: &str, said: &[(&str, &str)]) {
        for (name, what) in said {
            dir.create(format!("{supply}/{name}"), format!("{what}\n"));
        }
    }

    #[test]
    fn a_battery_that_gives_power_alone_is_what_the_machine_runs_on() {
        let dir = Dir::new();
        let is_on_battery = || is_on_battery(dir.path());
        assert!(!is_on_battery(), "a machine without supplies");
        add(&dir, "mouse", &[("type", "Battery"), ("scope", "Device"), ("status", "Discharging")]);
        assert!(!is_on_battery());
        add(&dir, "BAT0", &[("type", "Battery"), ("status", "Charging"), ("capacity", "50")]);
        assert!(!is_on_battery());
        add(&dir, "BAT0", &[("status", "Discharging")]);
        assert!(is_on_battery());
        add(&dir, "AC", &[("type", "Mains"), ("online", "0")]);
        assert!(is_on_battery());
        add(&dir, "AC", &[("online", "1")]);
        assert!(!is_on_battery(), "a weak charger");
        add(&dir, "AC", &[("type", "USB"), ("online", "2")]);
        assert!(!is_on_battery(), "one that is told what to give");
    }

    #[test]
    fn it_is_asked_now_and_then() {
        let dir = Dir::new();
        let mut power = Power::by(dir.path());
        assert!(!power.is_on_battery(HOLDS));
        add(&dir, "BAT0", &[("type", "Battery"), ("status", "Discharging")]);
        assert!(!power.is_on_battery(HOLDS + HOLDS / 2));
        assert!(power.is_on_battery(2 * HOLDS));
    }
}
