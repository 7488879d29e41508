//! Which system calls of an observed program are told: a seccomp filter.
//!
//! Each told call costs its program a few microseconds, so only what can matter is told: what opens
//! files, runs programs or moves relative names. What a register shows to be of no interest, such
//! as the opening of a folder, passes in the kernel. So does what ends a process: a signal can interrupt a call
//! before it is received, and one that a program does not expect to return from leaves it hanging.

/// One instruction of classic BPF; the kernel's `struct sock_filter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

/// `BPF_LD | BPF_W | BPF_ABS`.
const LOAD: u16 = 0x20;
/// `BPF_JMP | BPF_JEQ | BPF_K`.
const JUMP_IF_EQUAL: u16 = 0x15;
/// `BPF_JMP | BPF_JSET | BPF_K`.
const JUMP_IF_ANY_BIT: u16 = 0x45;
/// `BPF_RET | BPF_K`.
const RETURN: u16 = 0x06;

/// Offsets in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Opened for its name or its entries only: nothing is read.
const NOT_READ: u32 = (libc::O_DIRECTORY | libc::O_PATH).cast_unsigned();

/// A call that is told, by its number, and which of its arguments says how it opens, if any does.
pub(super) const TOLD: &[(libc::c_long, Option<u8>)] = &[
    (libc::SYS_openat, Some(2)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, Some(1)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, None),
    (libc::SYS_openat2, None),
    (libc::SYS_execve, None),
    (libc::SYS_execveat, None),
    (libc::SYS_chdir, None),
    (libc::SYS_fchdir, None),
    (libc::SYS_chroot, None),
    (libc::SYS_pivot_root, None),
    (libc::SYS_umount2, None),
    (libc::SYS_unshare, None),
    (libc::SYS_setns, None),
];

/// The filter: tells of [`TOLD`], lets pass everything else, and everything of another
/// architecture's numbers.
pub(super) fn program() -> Vec<Instruction> {
    let load = |value| Instruction { code: LOAD, if_true: 0, if_false: 0, value };
    let returns = |value| Instruction { code: RETURN, if_true: 0, if_false: 0, value };
    let mut program = vec![
        load(ARCHITECTURE_AT),
        Instruction { code: JUMP_IF_EQUAL, if_true: 1, if_false: 0, value: ARCHITECTURE },
        returns(libc::SECCOMP_RET_ALLOW),
        load(NUMBER_AT),
    ];
    for &(number, flags) in TOLD {
        let value = u32::try_from(number).expect("numbers of system calls are small");
        let Some(argument) = flags else {
            program.push(Instruction { code: JUMP_IF_EQUAL, if_true: 0, if_false: 1, value });
            program.push(returns(libc::SECCOMP_RET_USER_NOTIF));
            continue;
        };
        program.extend([
            Instruction { code: JUMP_IF_EQUAL, if_true: 0, if_false: 4, value },
            load(ARGUMENTS_AT + 8 * u32::from(argument) + low_half()),
            Instruction { code: JUMP_IF_ANY_BIT, if_true: 0, if_false: 1, value: NOT_READ },
            returns(libc::SECCOMP_RET_ALLOW),
            returns(libc::SECCOMP_RET_USER_NOTIF),
        ]);
    }
    program.push(returns(libc::SECCOMP_RET_ALLOW));
    program
}

/// Where the low half of a 64-bit argument is.
fn low_half() -> u32 {
    if cfg!(target_endian = "big") { 4 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter answers to a call: a machine for its five instructions.
    fn answer(architecture: u32, number: libc::c_long, arguments: [u32; 6]) -> u32 {
        let program = program();
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let Instruction { code, if_true, if_false, value } = program[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { if_true } else { if_false });
            match code {
                LOAD => {
                    accumulator = match value {
                        NUMBER_AT => u32::try_from(number).expect("small"),
                        ARCHITECTURE_AT => architecture,
                        at => arguments[(at - ARGUMENTS_AT) as usize / 8],
                    }
                }
                JUMP_IF_EQUAL => at += jump(accumulator == value),
                JUMP_IF_ANY_BIT => at += jump(accumulator & value != 0),
                RETURN => return value,
                other => panic!("no such instruction: {other}"),
            }
        }
    }

    fn is_told(number: libc::c_long, arguments: [u32; 6]) -> bool {
        answer(ARCHITECTURE, number, arguments) == libc::SECCOMP_RET_USER_NOTIF
    }

    #[test]
    fn what_opens_and_runs_is_told() {
        for &(number, _) in TOLD {
            assert!(is_told(number, [0; 6]), "{number}");
        }
    }

    #[test]
    fn folders_and_bare_names_pass() {
        let open = |flags: i32| is_told(libc::SYS_openat, [0, 0, flags.cast_unsigned(), 0, 0, 0]);
        assert!(!open(libc::O_DIRECTORY | libc::O_CLOEXEC));
        assert!(!open(libc::O_PATH));
        assert!(open(libc::O_CLOEXEC));
        assert!(open(libc::O_WRONLY | libc::O_CREAT));
    }

    #[test]
    fn everything_else_passes_and_so_does_another_architecture() {
        let ends = [libc::SYS_exit, libc::SYS_exit_group];
        for number in [libc::SYS_read, libc::SYS_write, libc::SYS_clone].into_iter().chain(ends) {
            assert!(!is_told(number, [0; 6]));
        }
        assert_eq!(answer(0x4000_0003, libc::SYS_openat, [0; 6]), libc::SECCOMP_RET_ALLOW);
    }
}
