//! Which system calls of an observed program are told: a seccomp filter.
//!
//! Each told call costs its program a few microseconds, so only what can matter is told: what opens
//! files, runs programs or leads to other mounts. What a register shows to be of no interest, such
//! as the opening of a folder, passes in the kernel. So does what can be found out later and no signal ever
//! interrupts: before a call is received one can, and a program that changes its working folder does not
//! expect that, nor does one that ends.

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
/// `BPF_ALU | BPF_AND | BPF_K`.
const AND: u16 = 0x54;
/// `BPF_RET | BPF_K`.
const RETURN: u16 = 0x06;

/// Offsets in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

/// Opened for its name or its entries only: nothing is read.
const NOT_READ: u32 = (libc::O_DIRECTORY | libc::O_PATH).cast_unsigned();

/// What of a number of x86-64 says that its caller counts in 32 bits (x32).
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// What a call that is told does, by which its arguments are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Open,
    OpenAt,
    OpenAt2,
    Create,
    Execute,
    ExecuteAt,
    ChangeRoot,
    Unmount,
    Unshare,
    Enter,
}

impl Does {
    /// Which argument says how it opens.
    fn flags_at(self) -> Option<u32> {
        match self {
            Self::Open => Some(1),
            Self::OpenAt => Some(2),
            _ => None,
        }
    }
}

/// How the programs of a kind call the kernel.
struct Architecture {
    /// As the kernel has it (`AUDIT_ARCH_`).
    name: u32,
    /// Bits of a number that do not say which call it is.
    ignored: u32,
    told: &'static [(libc::c_long, Does)],
}

/// This program's kind, and that of 32 bits which the same machine may run.
const ARCHITECTURES: [Architecture; 2] = {
    use Does::{
        ChangeRoot, Create, Enter, Execute, ExecuteAt, Open, OpenAt, OpenAt2, Unmount, Unshare,
    };
    let own: &[_] = &[
        (libc::SYS_openat, OpenAt),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, Open),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, Create),
        (libc::SYS_openat2, OpenAt2),
        (libc::SYS_execve, Execute),
        (libc::SYS_execveat, ExecuteAt),
        // x32 has numbers of its own for what takes pointers to pointers.
        #[cfg(target_arch = "x86_64")]
        (520, Execute),
        #[cfg(target_arch = "x86_64")]
        (545, ExecuteAt),
        (libc::SYS_chroot, ChangeRoot),
        (libc::SYS_pivot_root, ChangeRoot),
        (libc::SYS_umount2, Unmount),
        (libc::SYS_unshare, Unshare),
        (libc::SYS_setns, Enter),
    ];
    #[cfg(target_arch = "x86_64")]
    let (name, ignored, of_32_bits) = (
        0xc000_003e,
        X32,
        Architecture {
            name: 0x4000_0003,
            ignored: 0,
            told: &[
                (295, OpenAt),
                (5, Open),
                (8, Create),
                (437, OpenAt2),
                (11, Execute),
                (358, ExecuteAt),
                (61, ChangeRoot),
                (217, ChangeRoot),
                (22, Unmount),
                (52, Unmount),
                (310, Unshare),
                (346, Enter),
            ],
        },
    );
    #[cfg(target_arch = "aarch64")]
    let (name, ignored, of_32_bits) = (
        0xc000_00b7,
        0,
        Architecture {
            name: 0x4000_0028,
            ignored: 0,
            told: &[
                (322, OpenAt),
                (5, Open),
                (8, Create),
                (437, OpenAt2),
                (11, Execute),
                (387, ExecuteAt),
                (61, ChangeRoot),
                (218, ChangeRoot),
                (52, Unmount),
                (337, Unshare),
                (375, Enter),
            ],
        },
    );
    [Architecture { name, ignored, told: own }, of_32_bits]
};

/// What a told call does, by the architecture it came from and its number there.
pub(super) fn does(architecture: u32, number: libc::c_int) -> Option<Does> {
    let of = ARCHITECTURES.iter().find(|of| of.name == architecture)?;
    let number = libc::c_long::from(number.cast_unsigned() & !of.ignored);
    of.told.iter().find(|(told, _)| *told == number).map(|(_, does)| *does)
}

/// The filter: tells of what is to be told of each of [`ARCHITECTURES`], and lets pass everything else.
pub(super) fn program() -> Vec<Instruction> {
    let mut program = vec![load(ARCHITECTURE_AT)];
    for of in ARCHITECTURES {
        let tells = tells_of(&of);
        let if_false = u8::try_from(tells.len()).expect("few calls are told");
        program.push(Instruction { code: JUMP_IF_EQUAL, if_true: 0, if_false, value: of.name });
        program.extend(tells);
    }
    program.push(returns(libc::SECCOMP_RET_ALLOW));
    program
}

fn tells_of(of: &Architecture) -> Vec<Instruction> {
    let mut program = vec![load(NUMBER_AT)];
    if of.ignored != 0 {
        program.push(Instruction { code: AND, if_true: 0, if_false: 0, value: !of.ignored });
    }
    for &(number, does) in of.told {
        let value = u32::try_from(number).expect("numbers of system calls are small");
        let Some(argument) = does.flags_at() else {
            program.push(Instruction { code: JUMP_IF_EQUAL, if_true: 0, if_false: 1, value });
            program.push(returns(libc::SECCOMP_RET_USER_NOTIF));
            continue;
        };
        program.extend([
            Instruction { code: JUMP_IF_EQUAL, if_true: 0, if_false: 4, value },
            load(ARGUMENTS_AT + 8 * argument + low_half()),
            Instruction { code: JUMP_IF_ANY_BIT, if_true: 0, if_false: 1, value: NOT_READ },
            returns(libc::SECCOMP_RET_ALLOW),
            returns(libc::SECCOMP_RET_USER_NOTIF),
        ]);
    }
    program.push(returns(libc::SECCOMP_RET_ALLOW));
    program
}

fn load(value: u32) -> Instruction {
    Instruction { code: LOAD, if_true: 0, if_false: 0, value }
}

fn returns(value: u32) -> Instruction {
    Instruction { code: RETURN, if_true: 0, if_false: 0, value }
}

/// Where the low half of a 64-bit argument is.
fn low_half() -> u32 {
    if cfg!(target_endian = "big") { 4 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = ARCHITECTURES[0].name;

    /// What the filter answers to a call: a machine for its instructions.
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
                AND => accumulator &= value,
                RETURN => return value,
                other => panic!("no such instruction: {other}"),
            }
        }
    }

    fn is_told(architecture: u32, number: libc::c_long, arguments: [u32; 6]) -> bool {
        answer(architecture, number, arguments) == libc::SECCOMP_RET_USER_NOTIF
    }

    #[test]
    fn what_opens_and_runs_is_told_of_every_kind_of_program() {
        for Architecture { name, ignored, told } in ARCHITECTURES {
            for &(number, what) in told {
                for number in [number, number | libc::c_long::from(ignored)] {
                    assert!(is_told(name, number, [0; 6]), "{name:x} {number}");
                    let number = libc::c_int::try_from(number).expect("small");
                    assert_eq!(does(name, number), Some(what), "{name:x} {number}");
                }
            }
        }
    }

    #[test]
    fn folders_and_bare_names_pass() {
        for Architecture { name, told, .. } in ARCHITECTURES {
            let by_name = |(_, does): &&(libc::c_long, Does)| *does == Does::OpenAt;
            let (number, _) = told.iter().find(by_name).expect("it is told");
            let open = |flags: i32| is_told(name, *number, [0, 0, flags.cast_unsigned(), 0, 0, 0]);
            assert!(!open(libc::O_DIRECTORY | libc::O_CLOEXEC));
            assert!(!open(libc::O_PATH));
            assert!(open(libc::O_CLOEXEC));
            assert!(open(libc::O_WRONLY | libc::O_CREAT));
        }
    }

    #[test]
    fn everything_else_passes_and_so_does_an_unknown_architecture() {
        let others = [libc::SYS_read, libc::SYS_write, libc::SYS_clone];
        let uninterrupted =
            [libc::SYS_exit, libc::SYS_exit_group, libc::SYS_chdir, libc::SYS_fchdir];
        for number in others.into_iter().chain(uninterrupted) {
            assert!(!is_told(OWN, number, [0; 6]));
        }
        // Of 32 bits, `exit`, `read` and `chdir`.
        for number in [1, 3, 12] {
            assert!(!is_told(ARCHITECTURES[1].name, number, [0; 6]));
        }
        assert!(!is_told(0x14, libc::SYS_openat, [0; 6]));
    }
}
