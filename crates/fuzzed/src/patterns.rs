//! The reader of learned patterns.

use std::sync::Arc;
use std::time::Duration;

use tree::{Access, Event, File, Learner, Matching, Options, Patterns, Process, User};

/// Bytes are refused, or are patterns that their own encoding gives back and that can be used.
///
/// Also under the checksum that they should have: without it nobody but an oracle gets past it.
pub fn patterns(bytes: &[u8]) {
    let signed = bytes.split_last_chunk::<8>().map(|(content, _)| {
        let checksum = content.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, &byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        [content, &checksum.to_le_bytes()].concat()
    });
    for bytes in [Some(bytes.to_vec()), signed].into_iter().flatten() {
        let Ok(patterns) = Patterns::decode(&bytes) else { continue };
        let encoded = patterns.encode();
        let again = Patterns::decode(&encoded).expect("what is written can be read");
        assert_eq!(again.encode(), encoded);
        use_them(&again);
    }
}

/// Runs the program that the seeds know, under both rules.
fn use_them(patterns: &Patterns) {
    for matching in [Matching::Paper, Matching::Ours] {
        let options = Options { matching, ..Options::default() };
        let mut learner = Learner::new(options, patterns.clone());
        let process = Process(1);
        let file =
            |path: &str| File { path: Arc::from(path.as_bytes()), identity: None, size: None };
        let executed = |program: &str, words: &str| Event::Executed {
            process,
            program: file(program),
            arguments: words.split(' ').map(|word| Arc::from(word.as_bytes())).collect(),
            folder: Arc::from(&b"/home/u"[..]),
        };
        let opened = Event::Opened { process, file: file("/src/a.c"), access: Access::Read };
        for event in [
            Event::Found { process, user: User(1000) },
            executed("/bin/sh", "sh build.sh"),
            executed("/bin/cc", "cc -c /src/a.c"),
            opened,
            Event::Exited { process },
        ] {
            drop(learner.on(event, Duration::from_secs(1)));
        }
    }
}
