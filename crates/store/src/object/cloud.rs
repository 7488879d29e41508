//! Whether there is a cloud around this machine that hands out keys at an address of its own.

use std::time::Duration;

use reqwest::Url;

/// How long an address that only exists inside a cloud may take to answer for the first time:
/// there it does at once, elsewhere packets to it may vanish.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(2);

/// How long such an address is not asked again after it gave no answer: every
/// request would wait for it, one after the other.
const ASKED_AGAIN: Duration = Duration::from_mins(1);

/// What is known of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Cloud {
    /// Nothing.
    #[default]
    Unknown,
    /// It gave no answer yet, lastly at this time.
    SilentAt(Duration),
    /// It has answered: if it does not for once, it will.
    Answers,
}

impl Cloud {
    /// How long an answer is waited for, where others may take `answer_max`; `None`: it is not
    /// asked.
    pub(super) fn limit(self, now: Duration, answer_max: Duration) -> Option<Duration> {
        match self {
            Self::SilentAt(last) if now.saturating_sub(last) < ASKED_AGAIN => None,
            Self::Unknown | Self::SilentAt(_) => Some(FIRST_ANSWER_MAX.min(answer_max)),
            Self::Answers => Some(answer_max),
        }
    }

    /// Notes whether it has answered.
    pub(super) fn note(&mut self, has_answered: bool, now: Duration) {
        if has_answered {
            *self = Self::Answers;
        } else if *self != Self::Answers {
            *self = Self::SilentAt(now);
        }
    }
}

/// Whether a URL is one that hands out keys to machines inside a cloud.
pub(super) fn is_of_cloud(url: &Url) -> bool {
    let hosts = ["169.254.169.254", "169.254.170.2", "[fd00:ec2::254]", "metadata.google.internal"];
    url.host_str().is_some_and(|host| hosts.contains(&host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_answered_is_left_alone_and_what_did_is_asked_again_at_once() {
        let [second, minute] = [Duration::from_secs(1), Duration::from_mins(1)];
        let answer_max = 30 * second;
        let mut cloud = Cloud::default();
        assert_eq!(cloud.limit(second, answer_max), Some(2 * second));
        cloud.note(false, second);
        assert_eq!(cloud.limit(minute, answer_max), None);
        assert_eq!(cloud.limit(minute + second, answer_max), Some(2 * second));
        cloud.note(true, minute + second);
        cloud.note(false, minute + second);
        assert_eq!(cloud.limit(minute + second, answer_max), Some(answer_max));
    }
}
