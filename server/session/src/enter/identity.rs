//! Gives up what the process was born with: descriptors, groups, users, capabilities, limits.

use anyhow::{Context, bail};
use opkit_domain::session::Identity;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use rustix::thread::{Gid, Uid};

use super::ProcessLimits;

/// Marks every descriptor from 3 on as closed at exec.
pub(super) fn close_descriptors_on_exec() -> anyhow::Result<()> {
    #[expect(
        unsafe_code,
        reason = "rustix has no close_range; with CLOEXEC it closes nothing that Rust owns"
    )]
    // SAFETY: three integers; no descriptor is closed in this process, only flags change.
    let answer =
        unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if answer != 0 {
        return Err(std::io::Error::last_os_error()).context("descriptors cannot be closed");
    }
    Ok(())
}

/// No core files, and what the spec asks for.
pub(super) fn set_limits(limits: ProcessLimits) -> anyhow::Result<()> {
    let set = |resource, value| {
        // Never above what this process has: a lower limit of the service holds for its sessions too.
        let value = getrlimit(resource).maximum.map_or(value, |most| most.min(value));
        setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
            .context("a limit cannot be set")
    };
    set(Resource::Core, 0)?;
    if let Some(processes) = limits.processes {
        set(Resource::Nproc, processes)?;
    }
    if let Some(bytes) = limits.file_bytes {
        set(Resource::Fsize, bytes)?;
    }
    Ok(())
}

/// Becomes the user for good and drops every capability, the bounding set too.
pub(super) fn become_user(identity: Option<&Identity>) -> anyhow::Result<()> {
    drop_bounding_set()?;
    rustix::thread::clear_ambient_capability_set().context("ambient capabilities stay")?;
    if let Some(identity) = identity {
        switch(identity)?;
    }
    rustix::thread::set_no_new_privs(true).context("no_new_privs cannot be set")?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).context("capabilities stay")?;
    if rustix::process::getuid().is_root() || rustix::process::geteuid().is_root() {
        bail!("never as root: the user did not change");
    }
    Ok(())
}

fn switch(identity: &Identity) -> anyhow::Result<()> {
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    if rustix::process::geteuid().is_root() {
        let groups: Vec<Gid> = identity.groups.iter().map(|&group| Gid::from_raw(group)).collect();
        rustix::thread::set_thread_groups(&groups).context("the groups cannot be set")?;
        rustix::thread::set_thread_res_gid(gid, gid, gid).context("the group cannot be set")?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).context("the user cannot be set")?;
    }
    let same = rustix::process::getuid() == uid
        && rustix::process::geteuid() == uid
        && rustix::process::getgid() == gid
        && rustix::process::getegid() == gid;
    if !same {
        bail!("this process cannot become user {} with group {}", identity.uid, identity.gid);
    }
    Ok(())
}

/// Without CAP_SETPCAP the set cannot be made smaller; then no_new_privs keeps it from ever being used.
fn drop_bounding_set() -> anyhow::Result<()> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            Err(Errno::INVAL) => break,
            Err(Errno::PERM) if !rustix::process::geteuid().is_root() => break,
            Err(error) => return Err(error).context("the bounding set stays"),
        }
    }
    Ok(())
}
