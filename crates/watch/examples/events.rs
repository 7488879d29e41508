//! Prints what all programs do on the file systems of the given paths; for a look at the source.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use nearfirst_watch::Source as _;
use nearfirst_watch::system::{Scope, System};
use tree::Event;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let on = std::env::args_os().skip(1).map(Into::into).collect();
    let scope = Scope { on, excluded: Vec::new() };
    let mut system = System::new(scope, Arc::new(store::Costs::load()))?;
    let mut out = io::stdout().lock();
    writeln!(out, "listening to {:?}", system.watched().collect::<Vec<_>>())?;
    loop {
        for (at, event) in system.next(Duration::from_secs(1))? {
            writeln!(out, "{:10.6} {}", at.as_secs_f64(), line(&event))?;
        }
        out.flush()?;
    }
}

fn line(event: &Event) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match event {
        Event::Executed { process, program, arguments, folder } => {
            let arguments: Vec<_> = arguments.iter().map(|argument| text(argument)).collect();
            let (program, folder) = (text(&program.path), text(folder));
            format!("{} runs {program} {arguments:?} in {folder}", process.0)
        }
        Event::Opened { process, file, access } => {
            format!("{} opened {} {access:?} {:?}", process.0, text(&file.path), file.size)
        }
        Event::Touched { process, file, extents } => {
            format!("{} touched {} {extents:?}", process.0, text(&file.path))
        }
        other => format!("{other:?}"),
    }
}
