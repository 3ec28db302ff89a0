//! crypt(3): the hashes of the system, by the system's own library, as nginx has
//! them.

use core::ffi::{CStr, c_char, c_int, c_void};

/// sizeof(struct crypt_data) of libxcrypt (crypt(3)).
const DATA: usize = 32_768;

#[link(name = "crypt")]
unsafe extern "C" {
    /// crypt_rn(3): null where the setting is none, or there is too little room.
    fn crypt_rn(phrase: *const c_char, setting: *const c_char, data: *mut c_void, size: c_int) -> *mut c_char;
}

/// The hash of a password by the method and the salt of `setting`, which may be a
/// hash; `None`: there is no such method.
pub fn crypt(password: &CStr, setting: &CStr) -> Option<Vec<u8>> {
    let mut data = vec![0_u64; DATA / 8];
    // SAFETY: both texts end by a zero and are only read; the memory is as large
    // as is told and aligned as any structure is; what is returned lies in it, or
    // is null.
    let hash = unsafe { crypt_rn(password.as_ptr(), setting.as_ptr(), data.as_mut_ptr().cast(), DATA as c_int) };
    if hash.is_null() {
        return None;
    }
    // SAFETY: it is not null, lies in `data`, which lives, and ends by a zero.
    let hash = unsafe { CStr::from_ptr(hash) }.to_bytes();
    // What failed begins so (crypt(3)).
    (!hash.starts_with(b"*")).then(|| hash.to_vec())
}
