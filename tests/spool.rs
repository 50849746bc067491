//! The promises of the spool, on real directories. What belongs to a whole process (its umask, its limits, its user)
//! is tested in a child: this program again, with one test that does what its variables say.

// The helpers of tests may unwrap as tests do, which clippy can't tell by itself.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use opentelemetry_failproof::event::BATCH_LIMIT;
use opentelemetry_failproof::sink::{Destination, Settings, Sink, SinkError, Spool};
use tempfile::TempDir;

const NOBODY: u32 = 65_534;

fn temporary() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A line of so many bytes, newline included.
fn line(bytes: usize) -> Vec<u8> {
    let mut line = vec![b'x'; bytes - 1];
    line.push(b'\n');
    line
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    files.sort();
    files
}

fn sizes(directory: &Path) -> Vec<u64> {
    let mut sizes = files(directory).iter().map(|file| fs::metadata(file).unwrap().len()).collect::<Vec<_>>();
    sizes.sort();
    sizes
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn is_root(directory: &TempDir) -> bool {
    fs::metadata(directory).unwrap().uid() == 0
}

/// This program again, in a shell that first runs `setup`, writing to the spool in `directory`: lines of `sizes` bytes in
/// one call.
fn child(program: &Path, setup: &str, directory: &Path, sizes: &[usize]) -> Command {
    let sizes = sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{setup}; exec \"$0\" \"$@\"")).arg(program);
    command.args(["--exact", "a_child_does_what_its_variables_say", "--ignored", "--nocapture"]);
    command.env("SPOOL", directory).env("LINES", sizes);
    command
}

fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stdout = String::from_utf8(stdout).unwrap();
    assert!(status.success(), "{stdout}{}", String::from_utf8_lossy(&stderr));
    stdout
}

fn this_program() -> PathBuf {
    env::current_exe().unwrap()
}

/// A copy for a user who can't reach the original. Another process makes it: a file that is open for writing here could
/// be inherited by the child of another test just then, and the system runs no program that somebody writes.
fn copy_of_this_program(place: &TempDir) -> PathBuf {
    let program = place.path().join("program");
    assert!(Command::new("cp").arg(this_program()).arg(&program).status().unwrap().success());
    program
}

#[test]
#[ignore = "the child of other tests"]
fn a_child_does_what_its_variables_say() {
    let Some(directory) = env::var_os("SPOOL") else { return };
    let lines = env::var("LINES").unwrap();
    if let Some(name) = lines.strip_prefix("numbered ") {
        return write_numbered_lines(Path::new(&directory), name);
    }
    let lines = lines.split(' ').flat_map(|bytes| line(bytes.parse().unwrap())).collect::<Vec<_>>();
    match Spool::open(directory).and_then(|mut spool| spool.write(&lines)) {
        Ok(()) => println!("ok"),
        Err(error) => println!("written {}: {error}", error.written()),
    }
}

const THREADS: usize = 4;
const WRITES: usize = 25;

fn write_numbered_lines(directory: &Path, name: &str) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut spool = Spool::open(directory).unwrap();
                for write in 0..WRITES {
                    spool.write(format!("{name} {thread} {write}\n").as_bytes()).unwrap();
                }
            });
        }
    });
}

#[test]
fn what_is_written_stands_in_one_finished_file_byte_for_byte() {
    let directory = temporary();
    let mut spool = Spool::open(directory.path()).unwrap();
    let lines = "{\"a\":1}\n{\"b\":\"…\"}\n".as_bytes();
    spool.write(lines).unwrap();
    let [file] = files(directory.path()).try_into().unwrap();
    assert_eq!(fs::read(&file).unwrap(), lines);
    let name = file.file_name().unwrap().to_str().unwrap();
    let stem = name.strip_suffix(".jsonl").unwrap();
    assert!(!stem.contains('.'), "{name}");
    let parts = stem.split('-').collect::<Vec<_>>();
    let form = parts.iter().map(|part| part.len()).take(8).collect::<Vec<_>>();
    assert_eq!((parts.len(), form), (9, vec![5, 4, 2, 5, 2, 2, 4, std::process::id().to_string().len()]), "{name}");
    assert!(stem.starts_with("event-2"), "{name}");
    assert_eq!(parts[7], std::process::id().to_string(), "{name}");
    assert_eq!(spool.describe(), format!("spool {}", directory.path().display()));
}

#[test]
fn no_lines_make_no_file() {
    let directory = temporary();
    Spool::open(directory.path()).unwrap().write(b"").unwrap();
    assert!(files(directory.path()).is_empty());
}

#[test]
fn modes_are_private_whatever_the_umask() {
    for umask in ["000", "022", "077"] {
        let home = temporary();
        let spool = home.path().join(".failproofai/custom-agents/events");
        assert!(run(&mut child(&this_program(), &format!("umask {umask}"), &spool, &[10])).contains("ok"));
        for directory in [&spool, &home.path().join(".failproofai/custom-agents"), &home.path().join(".failproofai")] {
            assert_eq!(mode(directory), 0o700, "{} under umask {umask}", directory.display());
        }
        let [file] = files(&spool).try_into().unwrap();
        assert_eq!(mode(&file), 0o600, "under umask {umask}");
    }
}

#[test]
fn the_mode_of_a_directory_that_exists_stays() {
    let directory = temporary();
    for kept in [0o750, 0o500] {
        fs::set_permissions(directory.path(), Permissions::from_mode(kept)).unwrap();
        let _ = Spool::open(directory.path());
        assert_eq!(mode(directory.path()), kept);
    }
}

#[test]
fn a_file_never_exceeds_the_batch_limit() {
    for (second, expected) in [
        (BATCH_LIMIT - 101, vec![BATCH_LIMIT - 1]),
        (BATCH_LIMIT - 100, vec![BATCH_LIMIT]),
        (BATCH_LIMIT - 99, vec![100, BATCH_LIMIT - 99]),
    ] {
        let directory = temporary();
        let lines = [line(100), line(second)].concat();
        Spool::open(directory.path()).unwrap().write(&lines).unwrap();
        assert_eq!(sizes(directory.path()), expected.iter().map(|size| *size as u64).collect::<Vec<_>>());
    }
}

#[test]
fn many_lines_come_back_in_their_order() {
    let directory = temporary();
    let lines =
        (0..300_000).flat_map(|n| format!("{{\"n\":{n},\"text\":\"{n:060}\"}}\n").into_bytes()).collect::<Vec<_>>();
    Spool::open(directory.path()).unwrap().write(&lines).unwrap();
    let mut files = files(directory.path());
    assert!(files.len() > 2);
    files.sort_by_key(|file| {
        file.file_stem().unwrap().to_str().unwrap().rsplit('-').next().unwrap().parse::<u64>().unwrap()
    });
    assert!(files.iter().all(|file| fs::read(file).unwrap().ends_with(b"\"}\n")));
    assert!(files.iter().flat_map(|file| fs::read(file).unwrap()).eq(lines));
}

#[test]
fn many_threads_of_many_processes_overwrite_nothing() {
    let directory = temporary();
    let names = ["a", "b", "c"];
    let children = names.map(|name| {
        let mut child = child(&this_program(), ":", directory.path(), &[]);
        child.env("LINES", format!("numbered {name}")).stdout(std::process::Stdio::null()).spawn().unwrap()
    });
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let expected = names
        .iter()
        .flat_map(|name| {
            (0..THREADS).flat_map(move |thread| (0..WRITES).map(move |write| format!("{name} {thread} {write}\n")))
        })
        .collect::<HashSet<_>>();
    let files = files(directory.path());
    assert!(files.iter().all(|file| file.extension().unwrap() == "jsonl"));
    assert_eq!(files.len(), expected.len());
    assert_eq!(files.iter().map(|file| fs::read_to_string(file).unwrap()).collect::<HashSet<_>>(), expected);
}

#[test]
fn a_write_that_runs_out_of_space_leaves_nothing_and_says_how_far_it_came() {
    let directory = temporary();
    // In blocks of 512 bytes: 5.5 MiB a file. Without the signal the write fails as on a full disk, after a part.
    let setup = "trap '' XFSZ; ulimit -f 11264";
    let said = run(&mut child(&this_program(), setup, directory.path(), &[5 << 20, 6 << 20, 10]));
    assert!(said.contains(&format!("written {}: cannot write {}", 5 << 20, directory.path().display())), "{said}");
    assert!(said.contains("free or allow more space"), "{said}");
    assert_eq!(sizes(directory.path()), [5 << 20]);
    assert!(files(directory.path()).iter().all(|file| file.extension().unwrap() == "jsonl"));
}

#[test]
fn a_directory_without_write_permission_is_an_error_with_a_remedy() {
    let place = temporary();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let spool = place.path().join("events");
    fs::create_dir(&spool).unwrap();
    fs::set_permissions(&spool, Permissions::from_mode(0o500)).unwrap();
    // Permissions don't bind root, who therefore sends somebody else: with a program where they can reach it.
    let program = copy_of_this_program(&place);
    let mut child = child(&program, ":", &spool, &[10]);
    if is_root(&place) {
        chown(&spool, Some(NOBODY), None).unwrap();
        child.uid(NOBODY);
    }
    let said = run(child.current_dir("/"));
    assert!(said.contains(&format!("written 0: cannot create a file in {}", spool.display())), "{said}");
    assert!(said.contains("let this user write there"), "{said}");
    assert!(files(&spool).is_empty());
}

#[test]
fn a_directory_of_another_user_is_refused_and_one_of_root_is_not() {
    let place = temporary();
    if !is_root(&place) {
        return;
    }
    fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
    let theirs = place.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(NOBODY), None).unwrap();
    let error = Spool::open(&theirs).unwrap_err();
    assert!(matches!(error, SinkError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("belongs to user 65534, and this is user 0"), "{error}");
    assert!(files(&theirs).is_empty());

    let program = copy_of_this_program(&place);
    let shared = place.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    assert!(run(child(&program, ":", &shared, &[10]).uid(NOBODY).current_dir("/")).contains("ok"));
}

#[test]
fn a_link_or_a_file_in_the_place_of_the_spool_is_refused() {
    let place = temporary();
    let real = place.path().join("real");
    fs::create_dir(&real).unwrap();
    symlink(&real, place.path().join("link")).unwrap();
    symlink(place.path().join("nowhere"), place.path().join("dangling")).unwrap();
    fs::write(place.path().join("file"), "").unwrap();
    for (name, why) in [
        ("link", "is a symbolic link"),
        ("link/", "is a symbolic link"),
        ("link/.", "is a symbolic link"),
        ("dangling", "is a symbolic link"),
        ("file", "is not a directory"),
    ] {
        let error = Spool::open(place.path().join(name)).unwrap_err();
        assert!(matches!(error, SinkError::Refused { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    assert!(files(&real).is_empty());
    assert!(!place.path().join("nowhere").exists());
    // Above the spool links are common: a home on another disk.
    Spool::open(place.path().join("link/events")).unwrap();
}

#[test]
fn a_file_above_the_spool_is_an_error_and_not_an_endless_attempt() {
    let place = temporary();
    fs::write(place.path().join("file"), "").unwrap();
    symlink(place.path().join("nowhere"), place.path().join("dangling")).unwrap();
    for name in ["file/events", "dangling/events"] {
        let error = Spool::open(place.path().join(name)).unwrap_err();
        assert!(matches!(error, SinkError::Spool { written: 0, .. }), "{error}");
    }
}

#[test]
fn a_directory_that_was_removed_is_made_again() {
    let place = temporary();
    let directory = place.path().join("home/events");
    let mut spool = Spool::open(&directory).unwrap();
    spool.write(b"{}\n").unwrap();
    fs::remove_dir_all(place.path().join("home")).unwrap();
    spool.write(b"{\"again\":1}\n").unwrap();
    let [file] = files(&directory).try_into().unwrap();
    assert_eq!(fs::read(file).unwrap(), b"{\"again\":1}\n");
    assert_eq!((mode(&directory), mode(directory.parent().unwrap())), (0o700, 0o700));
}

#[test]
fn a_directory_that_became_a_link_takes_nothing_more() {
    let place = temporary();
    let (directory, elsewhere) = (place.path().join("events"), place.path().join("elsewhere"));
    let mut spool = Spool::open(&directory).unwrap();
    fs::remove_dir(&directory).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &directory).unwrap();
    let error = spool.write(b"{}\n").unwrap_err();
    assert!(matches!(error, SinkError::Refused { .. }), "{error}");
    assert_eq!(error.written(), 0);
    assert!(files(&elsewhere).is_empty());
    fs::remove_file(&directory).unwrap();
    spool.write(b"{}\n").unwrap();
    assert_eq!(files(&directory).len(), 1);
}

#[test]
fn a_destination_opens_the_spool_that_it_names() {
    let place = temporary();
    let directory = place.path().join("a:b c");
    let mut sink =
        format!("spool:{}", directory.display()).parse::<Destination>().unwrap().open(&Settings::default()).unwrap();
    sink.write(b"{}\n").unwrap();
    assert_eq!(sink.describe(), format!("spool {}", directory.display()));
    assert_eq!(files(&directory).len(), 1);
    assert_eq!(Destination::Stdout.open(&Settings::default()).unwrap().describe(), "standard output");
}

#[test]
fn a_directory_that_is_swapped_for_a_link_all_the_time_lets_nothing_out() {
    let place = temporary();
    let path = |name: &str| place.path().join(name);
    fs::create_dir(path("elsewhere")).unwrap();
    symlink(path("elsewhere"), path("link")).unwrap();
    let mut spool = Spool::open(path("events")).unwrap();
    let swap = || {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        renameat_with(CWD, path("events"), CWD, path("link"), RenameFlags::EXCHANGE).unwrap();
    };
    let is_over = AtomicBool::new(false);
    let written = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                swap();
                swap();
                // Or hardly any would be written.
                thread::sleep(Duration::from_millis(1));
            }
        });
        let (mut written, mut refused) = (Vec::new(), 0);
        while written.len() < 50 || refused < 50 {
            let line = format!("{{\"number\":{}}}\n", written.len() + refused);
            match spool.write(line.as_bytes()) {
                Ok(()) => written.push(line),
                Err(_) => refused += 1,
            }
        }
        is_over.store(true, Ordering::Relaxed);
        written
    });
    assert!(files(&path("elsewhere")).is_empty());
    // What was not found at its place when it had been written was taken back.
    let read = |file: &PathBuf| fs::read_to_string(file).unwrap();
    assert_eq!(files(&path("events")).iter().map(read).collect::<HashSet<_>>(), written.iter().cloned().collect());
}
