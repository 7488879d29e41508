//! Text of compressed objects, by the programs that `grep -z` uses for files.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Stdio;
use std::thread::JoinHandle;

use grep::cli::{CommandReader, CommandReaderBuilder, DecompressionMatcher};
use nearfirst::Name;

use crate::program;

/// Chooses the program by a name's ending.
#[derive(Clone, Default)]
pub(crate) struct Decompressor(DecompressionMatcher);

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor").finish_non_exhaustive()
    }
}

impl Decompressor {
    /// Whether a name says that the object is compressed, and a program for it is here.
    pub(crate) fn knows(&self, name: &Name) -> bool {
        let command = self.0.command(path(name));
        command.is_some_and(|command| program::found(command.get_program()).is_some())
    }

    /// What `compressed` holds, if [`Decompressor::knows`] how.
    ///
    /// # Errors
    /// The program that cannot be started.
    pub(crate) fn read<R>(&self, name: &Name, compressed: R) -> io::Result<Option<Decompressed>>
    where
        R: Read + Send + 'static,
    {
        let Some(mut command) = self.0.command(path(name)) else { return Ok(None) };
        let (from, mut into) = io::pipe()?;
        command.stdin(Stdio::from(from));
        let reader = CommandReaderBuilder::new().async_stderr(true).build(&mut command)?;
        let feeder = std::thread::Builder::new().spawn(move || {
            let mut compressed = compressed;
            match io::copy(&mut compressed, &mut into) {
                // The program has seen enough, or says itself what is wrong.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                copied => copied.map(drop),
            }
        })?;
        Ok(Some(Decompressed { reader, feeder: Some(feeder) }))
    }
}

/// The part of a name that says how it is compressed.
fn path(name: &Name) -> &Path {
    Path::new(OsStr::from_bytes(name.file_name()))
}

/// Reads the text; dropped early, it ends the program.
#[derive(Debug)]
pub(crate) struct Decompressed {
    reader: CommandReader,
    feeder: Option<JoinHandle<io::Result<()>>>,
}

impl Decompressed {
    /// What kept the compressed bytes away, which is more to the point than the program's complaint.
    fn fed(&mut self) -> io::Result<()> {
        self.feeder.take().map_or(Ok(()), |feeder| {
            feeder.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")))
        })
    }
}

impl Read for Decompressed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.reader.read(buffer) {
            Ok(0) if !buffer.is_empty() => self.fed().map(|()| 0),
            Ok(read) => Ok(read),
            Err(error) => {
                self.fed()?;
                Err(io::Error::new(error.kind(), complaint(&error.to_string())))
            }
        }
    }
}

/// What a program has complained of, without the rules above and below.
fn complaint(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let words = lines.filter(|line| line.bytes().any(|byte| byte != b'-'));
    words.collect::<Vec<_>>().join("; ")
}
