//! Programs that print names, through the built program.

mod ground;

use ground::{small_files, stderr, stdout};

#[test]
fn programs_run_only_where_they_are_allowed() {
    let ground = small_files();
    let spec = "./%find . -name '*.txt'%";
    let refused = ground.run(&["ls", spec]);
    assert_eq!(refused.status.code(), Some(1));
    let told = ": find: `find . -name *.txt` was not run: programs are run only with allow_programs (--allow-programs)\n";
    for command in [&["ls"][..], &["wc", "-l"], &["grep", "in d"], &["cat"], &["order"], &["sleds"]]
    {
        let refused = ground.run(&[command, &[spec]].concat());
        assert!(stderr(&refused).contains(told), "{}", stderr(&refused));
    }
    let output = ground.run(&["ls", "--sort=name", "--allow-programs", spec]);
    assert_eq!(stdout(&output).lines().count(), 3, "{}", stderr(&output));
    let output = ground.run(&["wc", "--allow-programs", "-l", "--total=only", spec]);
    assert_eq!(stdout(&output), "3\n", "{}", stderr(&output));
    let output = ground.run(&["grep", "--allow-programs", "-l", "in d", spec]);
    assert!(stdout(&output).ends_with("d/c.txt\n"), "{}", stdout(&output));
    let silent = ground.run(&["ls", "--allow-programs", "%true%"]);
    assert_eq!(silent.status.code(), Some(1));
    assert_eq!(stderr(&silent), "nearfirst ls: %true%: it names nothing\n");
}

#[test]
fn a_program_that_prints_nothing_is_given_up_and_what_else_is_wanted_comes() {
    let ground = small_files();
    let silent = "./%sleep 1000%";
    for (command, limit, prints) in [
        (&["cat"][..], "--stall", "in a.txt\n"),
        (&["cat", "--unordered"], "--stall", "in a.txt\n"),
        (&["ls"], "--stall", "a.txt\n"),
        (&["order"], "--wait-max", "a.txt\n"),
    ] {
        let args = [command, &[limit, "1", "--allow-programs", silent, "a.txt"]].concat();
        let output = ground.run(&args);
        let told =
            "sleep: it printed nothing for 1 s, the limit that `stall` sets, or `--wait-max`";
        assert!(stderr(&output).contains(told), "{command:?}: {}", stderr(&output));
        assert_eq!(
            (stdout(&output), output.status.code()),
            (prints.into(), Some(1)),
            "{command:?}"
        );
    }
}
