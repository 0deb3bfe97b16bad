//! Puts the kernel's wall up: seccomp for sockets, Landlock for files and signals.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use opkit_domain::session::{WallMode, WallSpec};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// The newest Landlock whose rights this program knows; of these the kernel enforces all that it has.
const NEWEST: ABI = ABI::V10;
/// Below this, truncation is not judged.
const OLDEST: u32 = 3;

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
        seccompiler::apply_filter(&socket_filter()?).context("the socket filter cannot be put up")?;
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
        LandlockStatus::NotImplemented => bail!("the kernel has no Landlock; 6.2 or newer is needed"),
    };
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs || abi < OLDEST {
        bail!("Landlock is not fully enforced: the kernel has version {abi}, at least {OLDEST} is needed");
    }
    Ok(abi)
}

/// `socket(AF_UNIX)` and `io_uring_setup` answer EPERM; `socketpair` stays. seccompiler kills the process on a
/// foreign architecture. On x86-64 the x32 numbers of the same calls are refused as well.
fn socket_filter() -> anyhow::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).context("no socket filter for this machine")?;
    let unix = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, libc::AF_UNIX as u64)?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let bits: &[i64] = if arch == TargetArch::x86_64 { &[0, 0x4000_0000] } else { &[0] };
    for bit in bits {
        rules.insert(libc::SYS_socket | bit, vec![SeccompRule::new(vec![unix.clone()])?]);
        rules.insert(libc::SYS_io_uring_setup | bit, Vec::new());
    }
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?;
    Ok(filter.try_into()?)
}
