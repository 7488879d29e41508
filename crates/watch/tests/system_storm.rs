//! What the source that sees the whole system tells of processes without end. By itself: what the
//! kernel tells of processes it tells all who listen, and the queues of other tests are no longer.

mod shell;

use shell::{Shell, names, system};
use testkit::{Facility, Tmpfs, skip_unless};
use tree::Event;

#[test]
fn twenty_thousand_short_processes_come_and_go() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(1 << 20);
    std::fs::write(tmpfs.path().join("a"), "x").expect("the machine allows it");
    let mut shell = Shell::new(&tmpfs);
    let mut system = system(&tmpfs);
    let mut told = |count: usize| {
        shell.run(format!("i=0; while [ $i -lt {count} ]; do (:); i=$((i + 1)); done"));
        let events = shell.told(&mut system);
        let of = |what: fn(&Event) -> bool| events.iter().filter(|event| what(event)).count();
        let lost = of(|event| *event == Event::Lost { process: None });
        let forked = of(|event| matches!(event, Event::Forked { .. }));
        (lost, forked, of(|event| matches!(event, Event::Exited { .. })))
    };
    let (lost, forked, exited) = told(300);
    assert!(lost == 0 && forked >= 300 && exited >= 300, "{lost} {forked} {exited}");
    let (lost, forked, exited) = told(20_000);
    assert!(lost > 0 || forked >= 20_000 && exited >= 20_000, "{forked} {exited}");
    // What the queue has room for is not lost, however late it is looked into.
    assert!(forked + exited >= 20_000, "{forked} {exited}");
    shell.run("cat a");
    assert!(names(&shell.opened(&mut system)).contains(&"a"));
}
