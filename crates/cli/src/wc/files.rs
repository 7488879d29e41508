//! What is counted: operands, or the names in `--files0-from`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::OnceLock;

use nearfirst::{Costs, Kind, Status, fetch};

use super::count::Encoding;
use super::objects::Object;
use super::quote;
use super::remote::{Mixed, Remote};
use crate::messages;
use crate::specs::{Specs, is_remote, is_spec};

/// Largest list of names read whole, so that the column width can be known first: GNU's limit.
const LIST_BYTES_MAX: u64 = 10 << 20;

/// What is known of an input's size before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// That of a regular file.
    Bytes(u64),
    /// No regular file: it may hold anything.
    Unknown,
}

/// One thing to count.
#[derive(Debug)]
pub(super) enum Input {
    /// Standard input, with the name it was asked by.
    Stdin(Option<OsString>),
    /// The file of that name.
    File(OsString),
    /// An object of a store.
    Object(Object),
    /// Nothing: a name that cannot be one, and what to say of it.
    Bad(String),
}

impl Input {
    /// Its size as far as that is known before reading; `None` if it cannot be asked.
    pub(super) fn size(&self, costs: &Costs) -> Option<Size> {
        let entry = match self {
            Input::Stdin(_) => known_stdin(costs).ok()?.1?,
            Input::File(name) => costs.local().stat(name.as_ref()).ok()?,
            Input::Object(_) => return Some(Size::Unknown),
            Input::Bad(_) => return None,
        };
        Some(match entry.kind {
            Kind::File => Size::Bytes(entry.size),
            _ => Size::Unknown,
        })
    }

    /// Opens it to be read, and says what it is if that is known.
    ///
    /// # Errors
    /// The reason, without the name.
    pub(super) fn open(&self, costs: &Costs) -> Result<(File, Option<Status>), String> {
        match self {
            Input::Stdin(_) => known_stdin(costs),
            Input::File(name) => {
                let file = costs.open(name.as_ref()).map_err(|error| error.reason())?;
                let status = costs.local().status(&file).ok();
                Ok((file, status))
            }
            Input::Object(_) => Err("it is no file".to_owned()),
            Input::Bad(message) => Err(message.clone()),
        }
    }

    /// The name to print.
    pub(super) fn name(&self) -> Option<&OsStr> {
        match self {
            Input::Stdin(name) => name.as_deref(),
            Input::File(name) => Some(name),
            Input::Object(object) => Some(&object.name),
            Input::Bad(_) => None,
        }
    }
}

/// Standard input, without a buffer between.
pub(super) fn stdin() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Standard input, and what it is if that is known.
///
/// # Errors
/// Why there is none; also that its mount does not answer, which is waited for once.
fn known_stdin(costs: &Costs) -> Result<(File, Option<Status>), String> {
    static SILENCE: OnceLock<String> = OnceLock::new();
    let open = || stdin().map_err(|error| messages::reason(&error));
    let status = || costs.local().status(&io::stdin()).ok();
    let known = status();
    if !known.as_ref().is_some_and(|known| known.kind == Kind::File && known.backing.may_stall()) {
        return Ok((open()?, known));
    }
    if let Some(silence) = SILENCE.get() {
        return Err(silence.clone());
    }
    // It may have been opened long ago: what the kernel has last heard of it may be old.
    if let Err(error) = fetch::metadata(open()?, costs)
        && fetch::is_given_up(&error)
    {
        return Err(SILENCE.get_or_init(|| messages::reason(&error)).clone());
    }
    Ok((open()?, status()))
}

/// All inputs at once, or one after the other from a list too long or too slow to wait for.
pub(super) enum Inputs<'a> {
    /// All are known.
    Listed(Vec<Input>),
    /// Names arrive while others are counted.
    Streamed(Box<dyn Iterator<Item = Input> + Send + 'a>),
    /// Objects of stores are among them.
    Mixed(Box<dyn Iterator<Item = Input> + Send + 'a>),
}

/// The inputs that operands name, patterns of names included; none means standard input.
pub(super) fn from_operands(
    operands: Vec<OsString>,
    encoding: Encoding,
    costs: &Costs,
) -> Inputs<'static> {
    if operands.is_empty() {
        return Inputs::Listed(vec![Input::Stdin(None)]);
    }
    let mut inputs = Vec::with_capacity(operands.len());
    for name in operands {
        match name.as_bytes() {
            b"-" => inputs.push(Input::Stdin(Some(name))),
            b"" => inputs.push(Input::Bad("invalid zero-length file name".to_owned())),
            _ if is_spec(&name) => {
                let found = Specs::new(costs.local(), vec![name.clone()]);
                inputs.extend(found.map(|found| match found {
                    Ok(path) => Input::File(path.into_os_string()),
                    // What is no pattern, or matches nothing, is a name as it stands.
                    Err(error) if error.spec.as_bytes() == name.as_bytes() && !is_remote(&name) => {
                        Input::File(name.clone())
                    }
                    Err(error) => {
                        let spec = quote::redacted(OsStr::from_bytes(error.spec.as_bytes()));
                        let spec = quote::quoted(&spec, encoding);
                        Input::Bad(format!("{spec}: {}", error.reason))
                    }
                }));
            }
            _ => inputs.push(Input::File(name)),
        }
    }
    Inputs::Listed(inputs)
}

/// The inputs of operands of which some stand for objects of stores: one after the other, as they
/// become known, in the order of the operands.
pub(super) fn from_mixed_operands<'a>(
    operands: &'a [OsString],
    remote: &'a Remote<'a>,
) -> Inputs<'a> {
    let inputs = operands.iter().flat_map(|operand| {
        if remote.is_of_objects(operand) {
            return vec![Input::File(operand.clone())];
        }
        match from_operands(vec![operand.clone()], remote.encoding, remote.costs) {
            Inputs::Listed(inputs) => inputs,
            Inputs::Streamed(inputs) | Inputs::Mixed(inputs) => inputs.collect(),
        }
    });
    Inputs::Mixed(Box::new(Mixed::new(inputs, remote)))
}

/// The inputs named in a list of NUL-terminated names, `-` for the list on standard input.
///
/// Names of files are taken as they stand; those of objects may be patterns, as operands.
///
/// # Errors
/// The message to end with, when the list cannot be opened.
pub(super) fn from_list<'a>(list: &OsStr, remote: &'a Remote<'a>) -> Result<Inputs<'a>, String> {
    let encoding = remote.encoding;
    let from_stdin = list == "-";
    let shown = quote::redacted(list);
    let costs = remote.costs;
    let failed = |reason| {
        let list = quote::always_quoted(&shown, encoding);
        format!("cannot open {list} for reading: {reason}")
    };
    let file = if from_stdin {
        stdin().map_err(|error| messages::reason(&error))
    } else {
        costs.open(list.as_ref()).map_err(|error| error.reason())
    };
    let file = file.map_err(failed)?;
    let is_short = |status: Status| status.kind == Kind::File && status.size <= LIST_BYTES_MAX;
    let short = costs.local().status(&file).is_ok_and(is_short);
    let bytes = fetch::answering(file, costs).map_err(|error| failed(messages::reason(&error)))?;
    let mut names = Names {
        list: quote::quoted(&shown, encoding).into_owned(),
        from_stdin,
        read: 0,
        ended: false,
        bytes: Box::new(BufReader::new(bytes)),
    };
    if !short {
        return Ok(Inputs::Streamed(Box::new(Mixed::new(names, remote))));
    }
    let mut bytes = Vec::new();
    if let Err(error) = names.bytes.read_to_end(&mut bytes) {
        return Err(names.read_error(&error));
    }
    names.bytes = Box::new(io::Cursor::new(bytes));
    let inputs: Vec<Input> = names.collect();
    let is_remote = |input: &Input| input.name().is_some_and(|name| remote.is_of_objects(name));
    if inputs.iter().any(is_remote) {
        return Ok(Inputs::Mixed(Box::new(Mixed::new(inputs.into_iter(), remote))));
    }
    Ok(Inputs::Listed(inputs))
}

/// Reads a list of names.
pub(super) struct Names {
    list: String,
    from_stdin: bool,
    read: u64,
    ended: bool,
    bytes: Box<dyn BufRead + Send>,
}

impl Names {
    fn read_error(&self, error: &io::Error) -> String {
        format!("{}: read error: {}", self.list, messages::reason(error))
    }
}

impl Iterator for Names {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        if self.ended {
            return None;
        }
        let mut name = Vec::new();
        if let Err(error) = self.bytes.read_until(0, &mut name) {
            self.ended = true;
            return Some(Input::Bad(self.read_error(&error)));
        }
        let terminated = name.pop_if(|byte| *byte == 0).is_some();
        if name.is_empty() && !terminated {
            self.ended = true;
            return None;
        }
        self.read += 1;
        Some(match name.as_slice() {
            b"" => {
                Input::Bad(format!("{}:{}: invalid zero-length file name", self.list, self.read))
            }
            b"-" if self.from_stdin => Input::Bad(
                "when reading file names from stdin, no file name of '-' allowed".to_owned(),
            ),
            b"-" => Input::Stdin(Some(OsString::from_vec(name))),
            _ => Input::File(OsString::from_vec(name)),
        })
    }
}
