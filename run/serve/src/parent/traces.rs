//! Files that a child made while it could, and cannot remove any more.

use super::super::supervisor::restart_of;
use super::super::takeover::usual_control;
use crate::plan::{Control, Listen, ServePath, ServePlan};
use silo::page::{Reader, usual_folder};
use sockets::Endpoint;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
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
    let usual = usual_folder().map(|folder| folder.join(format!("{pid}.page"))).ok();
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
    let is_dead = || UnixStream::connect(path).is_err_and(|why| why.kind() == ErrorKind::ConnectionRefused);
    if is_socket && is_dead() {
        let _ = std::fs::remove_file(path);
    }
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
}
