//! Whether files, sockets and addresses could be had, found out without taking
//! or making any.

use super::holder;
use super::takeover::control_path;
use super::wanted::every;
use crate::plan::{Control, Listen, RestartPlan};
use core::fmt::Display;
use core::net::{Ipv4Addr, SocketAddr};
use host::drivers::LinkSpec;
use rustix::fs::{Access, AtFlags, CWD, FileType, accessat, statat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use sockets::{BindError, Endpoint};
use std::path::Path;

/// What was found.
#[derive(Debug, Default)]
pub struct Findings {
    /// What the start would fail with.
    pub faults: Vec<String>,
    /// What else there is to be said.
    pub notes: Vec<String>,
}

impl Findings {
    /// Notes what is wrong, if anything.
    pub fn take(&mut self, found: Result<(), impl Display>) {
        if let Err(why) = found {
            self.wrong(why);
        }
    }

    /// Notes what is wrong; returns what is not to be shown in its place.
    pub fn wrong(&mut self, why: impl Display) -> String {
        self.faults.push(why.to_string());
        String::new()
    }
}

/// Whether a file could be made or replaced at `path`, by this user.
///
/// # Errors
/// A sentence for the user.
pub fn file(path: &Path) -> Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let in_folder = |why: Errno| {
        let what = match why {
            Errno::ACCESS | Errno::PERM => "this user may not make files in it".to_owned(),
            other => other.to_string(),
        };
        format!("cannot make {}: its folder {}: {what}", path.display(), folder.display())
    };
    let stat = statat(CWD, folder, AtFlags::empty()).map_err(in_folder)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(in_folder(Errno::NOTDIR));
    }
    accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).map_err(in_folder)?;
    match kind(path) {
        Some(FileType::Directory) => Err(format!("cannot make {}: it is a folder", path.display())),
        _ => Ok(()),
    }
}

/// What stands at `path` itself, if anything.
fn kind(path: &Path) -> Option<FileType> {
    let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

/// Whether the access log could be appended to, or made.
///
/// # Errors
/// A sentence for the user.
pub fn log(path: &Path) -> Result<(), String> {
    let refused = |why: Errno| format!("cannot open the access log {}: {why}", path.display());
    match statat(CWD, path, AtFlags::empty()) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => Err(refused(Errno::ISDIR)),
        Ok(_) => accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).map_err(refused),
        Err(Errno::NOENT) => file(path).map_err(|why| format!("cannot open the access log: {why}")),
        Err(why) => Err(refused(why)),
    }
}

/// Whether the statistics page could be made; the usual place for it is gone without.
pub fn page(path: Option<&Path>, findings: &mut Findings) {
    let usual = || ::page::usual_path().map_err(|why| format!("no place for the statistics page: {why}"));
    match path {
        Some(path) => findings.take(file(path)),
        None => findings.notes.extend(usual().and_then(|path| file(&path)).err()),
    }
}

/// Whether the process id could be written.
///
/// # Errors
/// A sentence for the user.
pub fn pid_file(path: &Path) -> Result<(), String> {
    match kind(path).filter(|kind| !matches!(kind, FileType::RegularFile | FileType::Symlink)) {
        Some(_) => Err(format!("cannot write {}: it is there, and no file", path.display())),
        None => file(path),
    }
}

/// What a restart needs: the control socket.
pub fn restarts(plan: &RestartPlan, findings: &mut Findings) {
    match control_path(plan) {
        Ok(Some(path)) if plan.control != Control::Usual => findings.take(socket(&path)),
        Ok(Some(path)) => findings.notes.extend(socket(&path).err()),
        Ok(None) => {}
        Err(why) => findings.notes.push(format!("no place for the control socket: {why}")),
    }
}

/// Whether a socket could be bound to this path, or to the place of one that is
/// there.
fn socket(path: &Path) -> Result<(), String> {
    if path.as_os_str().as_encoded_bytes().starts_with(b"@") {
        return Ok(());
    }
    match kind(path) {
        None | Some(FileType::Socket) => file(path),
        Some(_) => Err(format!("cannot listen on unix:{}: it is there, and no socket", path.display())),
    }
}

/// Whether the sockets that links would listen on could be.
///
/// # Errors
/// A sentence for the user.
pub fn links(links: &[LinkSpec]) -> Result<(), String> {
    links.iter().filter_map(|link| link.driver.listens_on()).try_for_each(socket)
}

/// Whether all this could be listened on.
pub fn listening(listen: &[Listen], findings: &mut Findings) {
    let usual = [Listen::Port(80)];
    // With systemd's sockets nothing else is opened, unless it is named.
    let given = listen.is_empty() && std::env::var_os("LISTEN_FDS").is_some();
    let listen = if listen.is_empty() && !given { &usual } else { listen };
    for listen in listen {
        let endpoint = match listen {
            Listen::Port(port) => every(*port),
            Listen::At(endpoint) => endpoint.clone(),
            Listen::Systemd(_) => continue,
        };
        match &endpoint {
            Endpoint::Unix(path) => findings.take(socket(path)),
            Endpoint::Tcp(address) => tcp(&endpoint, *address, findings),
        }
    }
}

/// Whether a socket could be bound to `address`, but for who is there now: that may be the
/// process that is to be followed.
///
/// # Errors
/// What binding to it fails with.
pub fn can_be_bound(address: SocketAddr) -> std::io::Result<()> {
    match bound(address) {
        Ok(()) | Err(Errno::ADDRINUSE) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

/// Whether metrics could be told there.
pub fn metrics(address: Option<SocketAddr>, findings: &mut Findings) {
    let Some(address) = address else { return };
    let mut found = Findings::default();
    tcp(&Endpoint::Tcp(address), address, &mut found);
    let of_metrics = |said: String| format!("metrics at {address}: {said}");
    findings.faults.extend(found.faults.into_iter().map(of_metrics));
    findings.notes.extend(found.notes.into_iter().map(of_metrics));
}

fn tcp(endpoint: &Endpoint, address: SocketAddr, findings: &mut Findings) {
    match bound(address) {
        Ok(()) => {}
        Err(Errno::ADDRINUSE) => {
            let holder = holder::of(endpoint);
            // One of ours hands it over, or is the very one that is asked about.
            let ours = holder.as_ref().is_none_or(|holder| holder.contains("(nearside)"));
            let who = holder.unwrap_or_else(|| "somebody does".to_owned());
            let said = format!("somebody listens on {endpoint} already: {who}");
            if ours { findings.notes.push(said) } else { findings.faults.push(said) }
        }
        Err(Errno::ACCESS) => _ = findings.wrong(BindError::System(endpoint.clone(), "bind", Errno::ACCESS.into())),
        Err(why) => _ = findings.wrong(format!("cannot listen on {endpoint}: {why}")),
    }
}

/// Binds a socket that never listens, so that nobody notices, and lets it go.
fn bound(address: SocketAddr) -> Result<(), Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = match socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None) {
        // As when it serves: without IPv6, all addresses are IPv4's.
        Err(Errno::AFNOSUPPORT) if address.ip().is_unspecified() && address.is_ipv6() => {
            return bound(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())));
        }
        other => other?,
    };
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &address)
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Folder;
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    #[test]
    fn places_for_files_are_judged_and_nothing_is_made() {
        let folder = Folder::new("check-files");
        let at = |name: &str| folder.0.join(name);
        std::fs::write(at("file"), "text").expect("written");
        std::fs::create_dir(at("folder")).expect("made");
        assert_eq!((file(&at("new")), log(&at("new")), log(&at("file"))), (Ok(()), Ok(()), Ok(())));
        for (found, reason) in [
            (file(&at("none/new")), "No such file"),
            (file(&at("file/new")), "Not a directory"),
            (file(&at("folder")), "it is a folder"),
            (log(&at("folder")), "Is a directory"),
            (log(&at("none/new")), "No such file"),
            (log(&at("file/new")), "Not a directory"),
            (socket(&at("file")), "no socket"),
            (socket(&at("none/sock")), "No such file"),
        ] {
            let told = found.expect_err(reason);
            assert!(told.contains(reason), "{told}");
        }
        let mut findings = Findings::default();
        page(Some(&at("none/page")), &mut findings);
        assert!(findings.faults[0].contains("No such file"), "{findings:?}");
        let bound = UnixListener::bind(at("sock")).expect("bound");
        assert_eq!((socket(&at("sock")), socket(Path::new("@any"))), (Ok(()), Ok(())));
        drop(bound);
        let left = std::fs::read_dir(&folder.0).expect("read").count();
        assert_eq!((left, std::fs::read_to_string(at("file")).expect("read")), (3, "text".to_owned()));
    }

    #[test]
    fn addresses_are_tried_and_nobody_is_in_the_way_afterwards() {
        let free = TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("an address");
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
        let at = taken.local_addr().expect("an address");
        let found = |text: String| {
            let mut findings = Findings::default();
            listening(&[text.parse().expect("right")], &mut findings);
            (findings.faults, findings.notes)
        };
        assert_eq!(found(free.to_string()), (vec![], vec![]));
        assert!(TcpListener::bind(free).is_ok(), "it was let go");
        let (faults, notes) = found(at.to_string());
        assert!(faults[0].contains("already: process") && notes.is_empty(), "{faults:?} {notes:?}");
        // TEST-NET-3 (RFC 5737).
        let (faults, _) = found("203.0.113.77:80".to_owned());
        assert!(faults[0].contains("cannot listen on 203.0.113.77:80"), "{faults:?}");
        assert_eq!(found("systemd".to_owned()), (vec![], vec![]));
        let of_metrics = |address: std::net::SocketAddr| {
            let mut findings = Findings::default();
            metrics(Some(address), &mut findings);
            (findings.faults, can_be_bound(address).is_ok())
        };
        assert_eq!(of_metrics(free), (vec![], true));
        let (faults, might) = of_metrics(at);
        assert!(faults[0].starts_with(&format!("metrics at {at}: somebody listens")) && might, "{faults:?}");
        let (faults, might) = of_metrics("203.0.113.77:9145".parse().expect("an address"));
        assert!(faults[0].contains("cannot listen on 203.0.113.77:9145") && !might, "{faults:?}");
        drop(taken);
    }
}
