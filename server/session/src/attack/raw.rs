//! System calls by number: the attacks call the kernel past every library.

use std::ffi::CString;
use std::io;

/// Makes one system call. Pointers in `args` must stay valid for its time.
pub(super) fn call(number: i64, args: &[usize]) -> io::Result<usize> {
    let arg = |at: usize| args.get(at).copied().unwrap_or_default();
    #[expect(unsafe_code, reason = "attacks use calls that no safe library offers")]
    // SAFETY: the callers pass integers and pointers to values that outlive the call; none closes a
    // descriptor or unmaps memory that Rust owns.
    let answer = unsafe { libc::syscall(number, arg(0), arg(1), arg(2), arg(3), arg(4), arg(5)) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as usize) }
}

/// Text as the kernel reads it. Keep it until the call is over.
pub(super) fn text(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// The address of a value for [`call`].
pub(super) fn at<T: ?Sized>(value: &T) -> usize {
    std::ptr::from_ref(value).cast::<u8>() as usize
}

/// `socket(AF_UNIX)` by the 32-bit door of a 64-bit kernel.
#[cfg(target_arch = "x86_64")]
pub(super) fn foreign_socket() -> io::Result<usize> {
    let answer: i32;
    #[expect(unsafe_code, reason = "only an instruction reaches the other architecture's calls")]
    // SAFETY: socket(2) of the 32-bit table with three integers; it touches no memory. rbx is kept by hand
    // because the compiler reserves it.
    unsafe {
        std::arch::asm!(
            "xchg {keep}, rbx",
            "int 0x80",
            "xchg {keep}, rbx",
            keep = inout(reg) libc::AF_UNIX as u64 => _,
            inlateout("eax") 359 => answer,
            in("ecx") libc::SOCK_STREAM,
            in("edx") 0,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(answer as usize) }
}

/// There is no such door here.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn foreign_socket() -> io::Result<usize> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}
