//! Puts the kernel's wall up: seccomp for sockets, Landlock for files and signals.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use opkit_domain::session::{OLDEST_LANDLOCK, WallMode, WallSpec};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// The newest Landlock whose rights this program knows; of these the kernel enforces all that it has.
const NEWEST: ABI = ABI::V10;

/// Devices that every program may write and read.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// What is in force.
pub(super) struct Wall {
    /// The Landlock ABI, 0 without.
    pub(super) landlock_abi: u32,
    /// The socket filter is in force.
    pub(super) seccomp: bool,
}

/// Puts up what `spec` asks for, completely or not at all.
pub(super) fn put_up(spec: &WallSpec) -> anyhow::Result<Wall> {
    if spec.block_unix_sockets {
        seccompiler::apply_filter(&filter(true)?).context("the socket filter cannot be put up")?;
    } else if this_machine().is_ok() {
        seccompiler::apply_filter(&filter(false)?).context("the filter cannot be put up")?;
    }
    let landlock_abi = match spec.mode {
        WallMode::Enforced => restrict_files(spec)?,
        WallMode::HookOnly => 0,
    };
    Ok(Wall { landlock_abi, seccomp: spec.block_unix_sockets })
}

fn restrict_files(spec: &WallSpec) -> anyhow::Result<u32> {
    let mut handled: BitFlags<AccessFs> = AccessFs::from_write(NEWEST);
    if spec.read.is_some() {
        handled |= AccessFs::from_read(NEWEST);
    }
    for path in &spec.write {
        // What stands in a place that may be written in was chosen by nobody but us.
        if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) {
            bail!("{} is a link, so the wall cannot be built around it", path.display());
        }
    }
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        // A path that does not exist gets no rule: nothing can be written there.
        .add_rules(path_beneath_rules(spec.write.iter().map(|path| path.as_path()), handled))?
        .add_rules(path_beneath_rules(DEVICES.map(Path::new), handled))?;
    if let Some(read) = &spec.read {
        ruleset = ruleset.add_rules(path_beneath_rules(read, AccessFs::from_read(NEWEST)))?;
    }
    let status = ruleset.restrict_self().context("Landlock cannot be put up")?;
    let abi = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u32,
        LandlockStatus::NotEnabled => bail!("the kernel was started without Landlock (lsm=landlock,...)"),
        LandlockStatus::NotImplemented => bail!("the kernel has no Landlock; Linux 6.12 or newer is needed"),
    };
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs || abi < OLDEST_LANDLOCK {
        bail!(
            "Landlock is not fully enforced: the kernel has version {abi}, and {OLDEST_LANDLOCK} (Linux 6.12) is needed to keep \
             signals in"
        );
    }
    Ok(abi)
}

fn this_machine() -> anyhow::Result<TargetArch> {
    TargetArch::try_from(std::env::consts::ARCH).context("no system call filter for this machine")
}

/// What Landlock does not judge, answered with EPERM: limits of another process, and with `sockets` the ways to
/// a socket with a path. Calls of a foreign architecture answer ENOSYS. On x86-64 the x32 numbers of the same
/// calls are refused as well.
fn filter(sockets: bool) -> anyhow::Result<BpfProgram> {
    use SeccompCmpArgLen::{Dword, Qword};
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let arg = SeccompCondition::new;
    let arch = this_machine()?;
    // Reading stays: the new limits are null then.
    let mut refused = vec![(libc::SYS_prlimit64, vec![vec![arg(0, Dword, Ne, 0)?, arg(2, Qword, Ne, 0)?]])];
    // The kernel's keyrings are shared by user and by login, whatever files are closed.
    for call in [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl] {
        refused.push((call, vec![]));
    }
    if sockets {
        let unix = || arg(0, Dword, Eq, libc::AF_UNIX as u64);
        // Stream pairs stay: they are connected for good. A datagram pair can be sent to any path; SOCK_RAW is
        // the same under another name. The low four bits are the type.
        let pair =
            |kind: i32| Ok::<_, anyhow::Error>(vec![unix()?, arg(1, Dword, MaskedEq(0xf), kind as u64)?]);
        refused.push((libc::SYS_socket, vec![vec![unix()?]]));
        refused.push((libc::SYS_socketpair, vec![pair(libc::SOCK_DGRAM)?, pair(libc::SOCK_RAW)?]));
        refused.push((libc::SYS_io_uring_setup, vec![]));
    }
    let bits: &[i64] = if arch == TargetArch::x86_64 { &[0, 0x4000_0000] } else { &[0] };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for (call, conditions) in refused {
        for bit in bits {
            let each = conditions.iter().cloned().map(SeccompRule::new);
            rules.insert(call | bit, each.collect::<Result<_, _>>()?);
        }
    }
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?;
    let mut program: BpfProgram = filter.try_into()?;
    answer_foreign_calls(&mut program, arch)?;
    Ok(program)
}

/// seccompiler's filters begin with: load the architecture, skip one if it is ours, end the process. The last
/// becomes "answer ENOSYS", so that a program that only asks for the other door lives. A beginning of another
/// shape is refused: then we do not know what we would change.
fn answer_foreign_calls(program: &mut BpfProgram, arch: TargetArch) -> anyhow::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // Where `struct seccomp_data` has it.
    const ARCH_OFFSET: u32 = 4;
    let number = match arch {
        TargetArch::x86_64 => 0xc000_003e,
        TargetArch::aarch64 => 0xc000_00b7,
        TargetArch::riscv64 => 0xc000_00f3,
    };
    match program.as_mut_slice() {
        [load, jump, end, ..]
            if (load.code, load.k) == (LOAD, ARCH_OFFSET)
                && (jump.code, jump.k, jump.jt, jump.jf) == (JUMP, number, 1, 0)
                && (end.code, end.k) == (RETURN, libc::SECCOMP_RET_KILL_PROCESS) =>
        {
            end.k = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
            Ok(())
        }
        _ => bail!("the filter begins in a way that this program does not know"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_another_shape_is_refused() {
        let Ok(arch) = this_machine() else { return };
        for sockets in [true, false] {
            let mut program = filter(sockets).expect("a filter");
            assert_eq!(program[2].k, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
            // It is changed already, so it is not what is expected.
            assert!(answer_foreign_calls(&mut program, arch).is_err());
            assert!(answer_foreign_calls(&mut program[1..].to_vec(), arch).is_err());
            assert!(answer_foreign_calls(&mut Vec::new(), arch).is_err());
        }
    }
}
