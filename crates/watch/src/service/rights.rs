//! What the service and its attendants may do, and no more.
//!
//! The service sees all programs and reads no data; an attendant has the rights of its user and reads
//! what that user may, by the kernel's own judgement.

use std::ffi::OsString;
use std::io;

use rustix::process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_keep_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use tree::User;

/// Whose groups a user without an entry in the user database has: nobody's.
const NO_GROUP: u32 = 65534;

/// What the service keeps: marks of file systems, folders by handle, programs of others, a large
/// queue; and to start attendants and end them: their users, their folders, their own rights, signals.
fn service_rights() -> CapabilitySet {
    CapabilitySet::SYS_ADMIN
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::SYS_PTRACE
        | CapabilitySet::NET_ADMIN
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::SETPCAP
        | CapabilitySet::CHOWN
        | CapabilitySet::KILL
        | CapabilitySet::FOWNER
}

/// What an attendant keeps: to be told what is in memory of files of others (`FOWNER`: the kernel
/// asks for it since Linux 5.2); root's, to read what root may read.
fn attendant_rights(user: User) -> CapabilitySet {
    if user.0 == 0 {
        CapabilitySet::FOWNER | CapabilitySet::DAC_READ_SEARCH
    } else {
        CapabilitySet::FOWNER
    }
}

/// Whether this process may listen to file systems. One that may not is given all but the marks, and
/// would see nothing.
pub(crate) fn may_listen() -> bool {
    capabilities(None).is_ok_and(|have| have.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// The rights without which it can become no user, of those that this process has not.
pub(crate) fn lacking() -> Vec<&'static str> {
    let needed = [
        (CapabilitySet::SETUID, "CAP_SETUID"),
        (CapabilitySet::SETGID, "CAP_SETGID"),
        (CapabilitySet::CHOWN, "CAP_CHOWN"),
    ];
    let have = capabilities(None).map_or(CapabilitySet::empty(), |have| have.effective);
    needed.iter().filter(|(right, _)| !have.contains(*right)).map(|(_, name)| *name).collect()
}

/// Gives up what the service does not need.
///
/// # Errors
/// The system's.
pub(crate) fn become_service() -> io::Result<()> {
    keep(service_rights())
}

/// Becomes `user`, in all that the kernel asks; before any thread is started.
///
/// # Errors
/// The system's, unless it is root that asks.
pub(crate) fn become_user(user: User) -> io::Result<()> {
    let (group, groups) = groups_of(user).unwrap_or((NO_GROUP, Vec::new()));
    let groups: Vec<_> = groups.into_iter().map(Gid::from_raw).collect();
    let (uid, gid) = (Uid::from_raw(user.0), Gid::from_raw(group));
    set_keep_capabilities(true)?;
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    keep(attendant_rights(user))?;
    set_no_new_privs(true)?;
    // With the change of user `/proc/self` became root's, by which files are opened. Its user cannot
    // take its rights over as a debugger all the same: who has fewer may not look (ptrace(2)).
    Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}

/// What a user is called by the user database, which may ask a server.
pub(crate) fn name_of(user: User) -> Option<OsString> {
    uzers::get_user_by_uid(user.0).map(|entry| entry.name().to_owned())
}

/// A user's first group, and all of them, by the user database, which may ask a server; `None` of who is
/// not in it, or if it has no answer.
pub(crate) fn groups_of(user: User) -> Option<(u32, Vec<u32>)> {
    let entry = uzers::get_user_by_uid(user.0)?;
    let group = entry.primary_group_id();
    let groups = uzers::get_user_groups(entry.name(), group).unwrap_or_default();
    Some((group, groups.iter().map(uzers::Group::gid).collect()))
}

/// Keeps these rights, of those that there are, and makes all others unattainable.
fn keep(rights: CapabilitySet) -> io::Result<()> {
    let have = capabilities(None)?;
    if have.effective.contains(CapabilitySet::SETPCAP)
        || have.permitted.contains(CapabilitySet::SETPCAP)
    {
        // Effective rights are gone once the user has changed.
        let sets = CapabilitySets { effective: have.permitted, ..have };
        set_capabilities(None, sets)?;
        for right in CapabilitySet::all().iter().filter(|right| !rights.contains(*right)) {
            // Rights that this kernel does not know, nobody has.
            remove_capability_from_bounding_set(right).ok();
        }
    }
    let kept = have.permitted & rights;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}
