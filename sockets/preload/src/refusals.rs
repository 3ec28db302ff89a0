//! Calls that fail because the connection is not the caller's, as the operator is told of them.

use crate::kernel::call;
use std::sync::Mutex;

/// The call that an action on the worker is of: it stands in the function of that name, or in one that
/// several calls have in common.
pub fn call_of(action: &'static str) -> &'static str {
    match action.rsplit("::").find(|name| !name.starts_with('{')).unwrap_or(action) {
        "accept_ours" => "accept",
        "connect_ours" | "take_over" => "connect",
        "receive_into" | "receive_portions" | "receive_message" => "recv",
        "transmit_from" => "send",
        "watch_ours" => "epoll_ctl",
        "poll_all" => "poll",
        "doubled" => "dup",
        "tell_option" => "getsockopt",
        "set_option" => "setsockopt",
        "control" => "ioctl",
        "send_from" => "sendfile",
        "splice_in" | "splice_out" => "splice",
        "receive_many" => "recvmmsg",
        name => name,
    }
}

/// Calls that the operator was told of.
static SAID: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// The calling thread, by its number and name, if the operator was not told of such a call yet.
pub fn is_news(call: &'static str) -> Option<String> {
    // After fork(2) it may be locked by a thread that is not here: then nothing is said.
    let mut said = SAID.try_lock().ok().filter(|said| !said.contains(&call))?;
    said.push(call);
    let mut name = [0u8; 16];
    call!(SYS_prctl, libc::PR_GET_NAME, name.as_mut_ptr(), 0, 0, 0);
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(format!("{} ({})", call!(SYS_gettid), String::from_utf8_lossy(name)))
}

/// This process is a child, of which the operator was told nothing.
pub fn forget() {
    if let Ok(mut said) = SAID.try_lock() {
        said.clear();
    }
}
