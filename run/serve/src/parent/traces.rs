//! Files that a child made while it could, and cannot remove any more.

use super::super::supervisor::restart_of;
use super::super::takeover::usual_control;
use crate::plan::{Control, Listen, ServePath, ServePlan};
use page::{Reader, usual_folder, usual_name};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use sockets::Endpoint;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Removes what belongs to the process `pid`, which has ended, alone.
pub fn remove_of(plan: &ServePlan, pid: u32) {
    if let Ok(control) = usual_control(pid) {
        remove_dead(&control);
    }
    let own = match &plan.path {
        ServePath::Kernel(kernel) => kernel.status_page.clone(),
        ServePath::Link { host, .. } => host.status_page.clone(),
    };
    let usual = usual_folder().map(|folder| folder.join(usual_name(pid))).ok();
    for page in [usual, own].into_iter().flatten() {
        if Reader::open(&page).is_ok_and(|reader| reader.pid() == pid) {
            let _ = std::fs::remove_file(&page);
        }
    }
}

/// Removes sockets by the configuration's names that nobody listens on.
pub fn remove(plan: &ServePlan) {
    if let Some(Control::At(path)) = restart_of(plan).map(|restart| &restart.control) {
        remove_dead(path);
    }
    match &plan.path {
        ServePath::Kernel(kernel) => {
            for listen in &kernel.listen {
                if let Listen::At(Endpoint::Unix(path)) = listen {
                    remove_dead(path);
                }
            }
        }
        ServePath::Link { host, .. } => {
            host.links.iter().filter_map(|link| link.driver.listens_on()).for_each(remove_dead);
        }
    }
}

/// Removes a socket's file if it is one, and nobody listens on it: whoever does,
/// whatever it speaks, refuses in another way.
fn remove_dead(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    let is_dead = || knock(path).is_err_and(|why| why == Errno::CONNREFUSED);
    if is_socket && is_dead() {
        let _ = std::fs::remove_file(path);
    }
}

/// Connects, if that can be done at once: somebody whose queue is full is there, and
/// would have whoever connects wait for as long as he likes.
fn knock(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?).map(|()| socket)
}

#[cfg(test)]
mod tests {
    use super::super::super::scratch::Folder;
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_dead_sockets_are_removed() {
        let folder = Folder::new("traces");
        let at = |name: &str| folder.0.join(name);
        let alive = UnixListener::bind(at("alive")).expect("bound");
        let control = super::super::super::control::Listener::bind(&at("control"), false).expect("bound");
        drop(UnixListener::bind(at("dead")).expect("bound"));
        std::fs::write(at("file"), "").expect("written");
        std::os::unix::fs::symlink(at("dead"), at("link")).expect("a link");
        for name in ["alive", "control", "file", "link"] {
            remove_dead(&at(name));
            assert!(at(name).symlink_metadata().is_ok(), "{name}");
        }
        remove_dead(&at("dead"));
        assert!(!at("dead").exists());
        drop((alive, control));
    }

    /// As somebody may put it there to whom the folder belongs.
    #[test]
    fn what_was_put_in_a_files_place_holds_nobody_up() {
        let folder = Folder::new("traces-held");
        let at = |name: &str| folder.0.join(name);
        // One who listens and accepts nobody, with a queue that is full.
        let full = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
        rustix::net::bind(&full, &SocketAddrUnix::new(at("full")).expect("a path")).expect("bound");
        rustix::net::listen(&full, 0).expect("it listens");
        let mut waiting = Vec::new();
        while let Ok(stream) = knock(&at("full")) {
            waiting.push(stream);
        }
        remove_dead(&at("full"));
        assert!(at("full").exists());
        for name in ["pipe.page", "device.page"] {
            let kind = if name == "pipe.page" { rustix::fs::FileType::Fifo } else { rustix::fs::FileType::Socket };
            rustix::fs::mknodat(rustix::fs::CWD, at(name), kind, rustix::fs::Mode::RWXU, 0).expect("made");
            assert!(Reader::open(&at(name)).is_err(), "{name}");
        }
    }
}
