use rustix::fd::AsFd;
use std::os::fd::AsRawFd;

/// The handle by which the server of a network file system identifies a file. Unlike an inode number, it is never
/// reused, so files of one file system with equal handles are the same file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerHandle(Box<[u8]>);

impl ServerHandle {
    /// Returns the handle of an open file; `None` if the file system does not provide it.
    pub(crate) fn of(file: &impl AsFd) -> Option<Self> {
        /// `struct file_handle` with room for the largest handle (`MAX_HANDLE_SZ`).
        #[repr(C)]
        struct Handle {
            len_bytes: libc::c_uint,
            kind: libc::c_int,
            bytes: [u8; 128],
        }
        let mut handle = Handle { len_bytes: 128, kind: 0, bytes: [0; 128] };
        let mut mount: libc::c_int = 0;
        // SAFETY: the descriptor is open as long as `file` is borrowed, and the empty path ends with a NUL. `Handle`
        // begins with the fields of `file_handle`, in their order and with C's layout, followed by the 128 bytes that
        // its first field promises; the kernel writes nowhere else. `mount` is a C int of our own.
        #[expect(unsafe_code, reason = "no crate offers this call")]
        let result = unsafe {
            libc::name_to_handle_at(
                file.as_fd().as_raw_fd(),
                c"".as_ptr(),
                (&raw mut handle).cast(),
                &raw mut mount,
                libc::AT_EMPTY_PATH,
            )
        };
        if result != 0 {
            return None;
        }
        let bytes = handle.bytes.get(..handle.len_bytes as usize)?;
        Some(ServerHandle([&handle.kind.to_ne_bytes(), bytes].concat().into()))
    }
}
