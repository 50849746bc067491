//! Files that nobody else may read: tokens and keys.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How many bytes such a file may have.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a file that has a secret.
///
/// # Errors
/// If it cannot be read, or others could have read or written it: what is wrong, without the file's name.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    read_if(path, exposure)
}

/// Reads a file that everybody may see, such as a certificate.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn read_public(path: &Path) -> Result<Vec<u8>, String> {
    read_if(path, |_| Ok(None))
}

/// The tokens in a file, one a line, so that a new one can be handed out before the old one goes.
///
/// # Errors
/// If there is none, or a line could not stand in a header.
pub(crate) fn tokens(text: &[u8]) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        match std::str::from_utf8(line) {
            Ok("") => {}
            Ok(token) if line.iter().all(u8::is_ascii_graphic) => tokens.push(token.to_owned()),
            _ => return Err(format!("line {} is no token; write printable ASCII without blanks", index + 1)),
        }
    }
    match tokens.is_empty() {
        true => Err("it has no token; write one on a line, for example what `openssl rand -hex 32` gives".to_owned()),
        false => Ok(tokens),
    }
}

fn read_if(path: &Path, exposure: impl FnOnce(&File) -> io::Result<Option<String>>) -> Result<Vec<u8>, String> {
    let read = || {
        // What is looked at and what is read are the same file, whatever the name means meanwhile.
        let file = File::open(path)?;
        if let Some(problem) = exposure(&file)? {
            return Ok(Err(problem));
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > MAX_BYTES {
            true => Ok(Err(format!("it has more than {MAX_BYTES} bytes"))),
            false => Ok(Ok(bytes)),
        }
    };
    read().unwrap_or_else(|error: io::Error| Err(error.to_string()))
}

/// What lets others at a file, if anything does. Ours is for us alone; one of root's may be readable for a group, as
/// Kubernetes mounts secrets.
fn exposure(file: &File) -> io::Result<Option<String>> {
    let metadata = file.metadata()?;
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
    let us = rustix::process::geteuid().as_raw();
    Ok(if owner != us && owner != 0 {
        Some(format!("it belongs to user {owner}, not to user {us}, whom this process runs as; chown it"))
    } else if mode & if owner == us { 0o077 } else { 0o037 } != 0 {
        Some(format!("others may use it (mode {mode:04o}); chmod it to 0600"))
    } else {
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_file_has_a_token_on_each_line() {
        assert_eq!(tokens(b"one\n\n  two \r\nthree"), Ok(vec!["one".into(), "two".into(), "three".into()]));
        assert!(tokens(b"\n \n").unwrap_err().starts_with("it has no token; "));
        for wrong in [&b"one\ntwo words\n"[..], b"one\n\xff\n", b"one\nt\0wo\n"] {
            assert!(tokens(wrong).unwrap_err().starts_with("line 2 is no token; "));
        }
    }
}
