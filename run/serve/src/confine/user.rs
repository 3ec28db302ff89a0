//! Whom the process that serves is to be.

use core::ffi::{CStr, c_int};
use std::ffi::CString;

/// Room for one entry of the user database, bytes: what is longer is no entry
/// that anybody has.
const ENTRY_MAX: usize = 64 << 10;

/// Groups of one user, at most (NGROUPS_MAX of limits.h is 65,536).
const GROUPS_MAX: usize = 4_096;

/// Who serves, where root need not say: the user that owns nothing.
pub const USUAL: &str = "nobody";

/// Its number and its group's, where there is no user database: those that the
/// kernel shows for owners that it cannot show (overflowuid of
/// kernel/sys.c).
const NOBODY: u32 = 65_534;

/// A user, with its groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// As it was asked for.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// Its own group.
    pub gid: u32,
    /// All its groups: those of the database, as with initgroups(3).
    pub groups: Vec<u32>,
}

impl Identity {
    /// The user called `text`, or with this number, or a user and a group in place of its
    /// own, by names or numbers, as in 1000:1000.
    ///
    /// # Errors
    /// A sentence for the user of the program, if there is none.
    pub fn find(text: &str) -> Result<Self, String> {
        if let Some((user, group)) = text.split_once(':') {
            let gid = match group.parse().ok() {
                Some(gid) => gid,
                None => group_by_name(group)?.ok_or_else(|| format!("--user {text}: there is no group {group:?}"))?,
            };
            if let Ok(uid) = user.parse() {
                return Ok(Self { name: text.to_owned(), uid, gid, groups: vec![gid] });
            }
            let (uid, groups) = match by_name(user)? {
                Some((uid, _, name)) => (uid, groups(&name, gid)),
                None if user == USUAL => (NOBODY, vec![gid]),
                None => return Err(format!("--user {text}: there is no user {user:?}")),
            };
            return Ok(Self { name: text.to_owned(), uid, gid, groups });
        }
        let number = text.parse::<u32>().ok();
        let entry = match number {
            Some(uid) => by_number(uid),
            None => by_name(text)?,
        };
        match (entry, number) {
            (Some((uid, gid, name)), _) => Ok(Self { name: text.to_owned(), uid, gid, groups: groups(&name, gid) }),
            (None, Some(uid)) => {
                Err(format!("--user {text}: no user has this number: give its group too, as {uid}:{uid}"))
            }
            (None, None) if text == USUAL => {
                Ok(Self { name: text.to_owned(), uid: NOBODY, gid: NOBODY, groups: vec![NOBODY] })
            }
            (None, None) => Err(format!("--user {text}: there is no such user")),
        }
    }
}

type Entry = Option<(u32, u32, CString)>;

fn by_name(name: &str) -> Result<Entry, String> {
    let name = CString::new(name).map_err(|_| "--user: a name has no NUL".to_owned())?;
    Ok(entry(|record, buffer, len, found| {
        // SAFETY: the name ends with NUL; record and buffer are written within
        // their sizes, and `found` is null or the record afterwards.
        unsafe { libc::getpwnam_r(name.as_ptr(), record, buffer, len, found) }
    }))
}

fn by_number(uid: u32) -> Entry {
    entry(|record, buffer, len, found| {
        // SAFETY: as above, with a number in place of the name.
        unsafe { libc::getpwuid_r(uid, record, buffer, len, found) }
    })
}

fn entry(ask: impl FnOnce(*mut libc::passwd, *mut libc::c_char, usize, *mut *mut libc::passwd) -> c_int) -> Entry {
    // SAFETY: a record of numbers and pointers, for which zero is a value.
    let mut record: libc::passwd = unsafe { core::mem::zeroed() };
    let mut buffer = vec![0; ENTRY_MAX];
    let mut found = core::ptr::null_mut();
    let told = ask(&raw mut record, buffer.as_mut_ptr(), buffer.len(), &raw mut found);
    if told != 0 || found.is_null() {
        return None;
    }
    // SAFETY: it was found, so the name lies in the buffer and ends with NUL.
    let name = unsafe { CStr::from_ptr(record.pw_name) };
    Some((record.pw_uid, record.pw_gid, name.to_owned()))
}

/// The number of a group.
fn group_by_name(name: &str) -> Result<Option<u32>, String> {
    let name = CString::new(name).map_err(|_| "--user: a name has no NUL".to_owned())?;
    // SAFETY: a record of numbers and pointers, for which zero is a value.
    let mut record: libc::group = unsafe { core::mem::zeroed() };
    let mut buffer = vec![0; ENTRY_MAX];
    let mut found = core::ptr::null_mut();
    // SAFETY: the name ends with NUL; record and buffer are written within their sizes, and
    // `found` is null or the record afterwards.
    let told =
        unsafe { libc::getgrnam_r(name.as_ptr(), &raw mut record, buffer.as_mut_ptr(), buffer.len(), &raw mut found) };
    Ok((told == 0 && !found.is_null()).then_some(record.gr_gid))
}

fn groups(name: &CStr, gid: u32) -> Vec<u32> {
    let mut groups = vec![0; GROUPS_MAX];
    let mut count = GROUPS_MAX as c_int;
    // SAFETY: the name ends with NUL; at most `count` groups are written, and
    // `count` says how many.
    let told = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
    let known = usize::try_from(count).unwrap_or(0).min(GROUPS_MAX);
    groups.truncate(if told < 0 { 0 } else { known });
    if groups.is_empty() {
        groups.push(gid);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = Identity::find("root").expect("everybody has it");
        assert_eq!((root.uid, root.gid), (0, 0));
        assert_eq!(Identity::find("0").map(|user| user.gid), Ok(0));
        let nobody = Identity::find(USUAL).expect("with a database or without");
        assert!(nobody.uid != 0 && !nobody.groups.contains(&0), "{nobody:?}");
        let both = Identity::find("4321:1234").expect("numbers need no entry");
        assert_eq!((both.uid, both.gid, both.groups), (4_321, 1_234, vec![1_234]));
        let named = Identity::find("root:4321").expect("a user by its name");
        assert_eq!((named.uid, named.gid, named.groups.contains(&4_321)), (0, 4_321, true));
        assert_eq!(Identity::find("0:root").map(|user| (user.uid, user.gid)), Ok((0, 0)));
        assert_eq!(Identity::find("nobody:root").map(|user| (user.uid, user.gid)), Ok((nobody.uid, 0)));
        for (text, reason) in [
            ("no-such-user-here", "no such user"),
            ("4000000001", "its group"),
            ("no-such-user-here:0", "there is no user"),
            ("root:no-such-group-here", "there is no group"),
            ("a\0b", "NUL"),
        ] {
            let told = Identity::find(text).expect_err(text);
            assert!(told.contains(reason), "{told}");
        }
    }
}
