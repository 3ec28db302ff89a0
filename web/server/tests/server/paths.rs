//! Whatever is asked for, nothing outside the root is served.

use crate::support::{Site, World, directory};
use server::Symlinks;
use std::os::unix::fs::symlink;

const SECRET: &str = "the secret";

fn site() -> Site {
    let site = Site::new();
    std::fs::write(site.outside().join("secret"), SECRET).expect("a file");
    std::fs::create_dir(site.outside().join("dir")).expect("a directory");
    std::fs::write(site.outside().join("dir/index.html"), SECRET).expect("a file");
    site.write("a b.txt", "space");
    site.write("sub/x.txt", "x");
    site.write("back\\slash", "backslash");
    site.write("%2e%2e", "percent");
    site
}

#[test]
fn traversal_never_leaves_the_root() {
    let site = site();
    for symlinks in [Symlinks::Off, Symlinks::WithinRoot, Symlinks::On] {
        let mut config = site.config();
        directory(&mut config).symlinks = symlinks;
        let mut world = World::new(config);
        for path in [
            "/../secret",
            "/..",
            "/../",
            "/../dir/",
            "/./../secret",
            "/sub/../../secret",
            "/sub/..//..//secret",
            "//../secret",
            "/%2e%2e/secret",
            "/%2E%2E/secret",
            "/.%2e/secret",
            "/%2e./secret",
            "/sub/%2e%2e/%2e%2e/secret",
            "/..%2fsecret",
            "/%2e%2e%2fsecret",
            "/sub%2f..%2f..%2fsecret",
            "/sub/..%2F..%2Fsecret",
            "/%2f..%2fsecret",
            "%2f..%2fsecret",
            "/sub%2f%2e%2e%2f%2e%2e%2fsecret",
            "/%2fetc%2fpasswd",
            "/..%252fsecret",
            "/%2e%2e%5csecret",
            "/..\\secret",
            "/..%5csecret",
            "/%252e%252e/secret",
            "/%252e%252e%252fsecret",
            "/%c0%ae%c0%ae/secret",
            "/%c0%ae%c0%ae%c0%afsecret",
            "/..%c0%afsecret",
            "/..%00/secret",
            "/sub/x.txt%00.html",
            "/....//secret",
            "/..;/secret",
            "/.../secret",
            "/sub/../../site/../secret",
            "http://a/../secret",
            "http://a/%2e%2e/secret",
            "/proc/self/root/etc/passwd",
            "//etc/passwd",
            "/etc/passwd",
        ] {
            let response = world.get(path);
            assert!(matches!(response.status, 400 | 403 | 404), "{path}: {}", response.status);
            assert!(!response.text().contains(SECRET), "{path}");
        }
    }
}

#[test]
fn targets_are_decoded_exactly_once() {
    let mut world = World::new(site().config());
    // The site is gone by now: its files are not, as long as it lives here.
    let site = site();
    world.server = World::new(site.config()).server;
    for (path, text) in [
        ("/a%20b.txt", "space"),
        ("/sub/./x.txt", "x"),
        ("/sub//x.txt", "x"),
        ("/none/../sub/x.txt", "x"),
        ("/%73ub/%78.txt", "x"),
        ("/sub/x.txt?../../secret", "x"),
        ("/back\\slash", "backslash"),
        ("/back%5Cslash", "backslash"),
        ("/%252e%252e", "percent"),
        // As package managers ask for scoped names.
        ("/sub%2fx.txt", "x"),
        ("/sub%2F.%2fx.txt", "x"),
        ("/sub%2f..%2fsub/x.txt", "x"),
    ] {
        let response = world.get(path);
        assert_eq!((response.status, response.text()), (200, text), "{path}");
    }
    for path in ["/%", "/%2", "/%zz", "/sub%2gx.txt", "/sub/x.txt%00"] {
        assert_eq!(world.get(path).status, 400, "{path}");
    }
}

#[test]
fn links_are_followed_as_told() {
    let site = site();
    let root = site.root();
    symlink("sub/x.txt", root.join("inside")).expect("a link");
    symlink("../secret", root.join("outside")).expect("a link");
    symlink("../dir", root.join("outside-dir")).expect("a link");
    symlink("sub", root.join("inside-dir")).expect("a link");
    symlink(root.join("sub/x.txt"), root.join("absolute")).expect("a link");
    symlink("loop", root.join("loop")).expect("a link");
    symlink("nowhere", root.join("broken")).expect("a link");
    symlink("/proc/self/root", root.join("magic")).expect("a link");
    let statuses = |symlinks| {
        let mut config = site.config();
        directory(&mut config).symlinks = symlinks;
        let mut world = World::new(config);
        [
            "/inside",
            "/inside-dir/x.txt",
            "/outside",
            "/outside-dir/",
            "/outside-dir/index.html",
            "/absolute",
            "/loop",
            "/broken",
            "/magic/etc/passwd",
        ]
        .map(|path| world.get(path).status)
    };
    assert_eq!(statuses(Symlinks::Off), [403; 9]);
    assert_eq!(statuses(Symlinks::WithinRoot), [200, 200, 403, 403, 403, 403, 403, 404, 403]);
    assert_eq!(statuses(Symlinks::On)[..7], [200, 200, 200, 200, 200, 200, 403]);
}

#[test]
fn what_is_no_file_is_not_opened_for_long() {
    let site = site();
    let fifo = site.root().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).expect("a pipe");
    let _socket = std::os::unix::net::UnixListener::bind(site.root().join("socket")).expect("a socket");
    let mut world = World::new(site.config());
    assert_eq!(world.get("/fifo").status, 403);
    assert_eq!(world.get("/socket").status, 403);
}

#[test]
fn the_root_must_exist() {
    let site = site();
    let clock = server::WallClock::new(wire::Time::ZERO, core::time::Duration::ZERO);
    let config = server::Config::directory(site.root().join("none"));
    assert!(matches!(server::Server::new(config, clock), Err(server::ConfigError::Root(..))));
    let config = server::Config::directory(site.outside().join("secret"));
    assert!(matches!(server::Server::new(config, clock), Err(server::ConfigError::Root(..))));
}
