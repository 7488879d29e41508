//! A program under a new name: known by its file.

use crate::event::File;
use crate::names::Name;
use crate::ours::Invocation;
use crate::patterns::Habits;

impl Habits {
    /// Has a program that is seen for the first time begin with what is known of the one that its
    /// file was before: `program` is the name it gets, `call` makes an invocation under any name.
    ///
    /// Inodes are told apart by file system no longer than until the next boot; so that two files
    /// are not taken for one, the old name must share its folder or its last part with the new one.
    /// What has several names from the beginning is learned by each of them from then on.
    pub(crate) fn inherit(
        &mut self,
        file: &File,
        program: Name,
        call: impl Fn(&[u8]) -> Invocation,
    ) {
        if self.programs.contains_key(&program) {
            return;
        }
        let Some(old) = self.earlier_name(file) else { return };
        let (from, to) = (call(self.names.path(old)), call(&file.path));
        for (from, to) in
            [(from.exact, to.exact), (from.shape, to.shape), (from.program, to.program)]
        {
            self.memory.inherit((from, old), (to, program));
        }
    }

    /// The only program that had this file: where two did, it has several names at a time, and
    /// does something else under each.
    fn earlier_name(&self, file: &File) -> Option<Name> {
        let inode = file.identity?.inode;
        let resembles = |name: &Name| {
            let (old, new) = (parts(self.names.path(*name)), parts(&file.path));
            old.0 == new.0 || old.1 == new.1
        };
        let mut had = self.programs.iter().filter(|(_, known)| known.inodes.last() == Some(&inode));
        let (&old, _) = had.next()?;
        (had.next().is_none() && resembles(&old)).then_some(old)
    }
}

/// The folder and the last part of a path.
fn parts(path: &[u8]) -> (&[u8], &[u8]) {
    let at = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    path.split_at(at)
}
