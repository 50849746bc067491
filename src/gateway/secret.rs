//! Files that nobody else may read: tokens and keys.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::GatewayError;

/// How many bytes such a file may have.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a file that has a secret.
///
/// # Errors
/// If it cannot be read, or others could have read or written it.
pub(super) fn read(path: &Path, purpose: &'static str) -> Result<Vec<u8>, GatewayError> {
    read_if(path, purpose, exposure)
}

/// Reads a file that everybody may see, such as a certificate.
///
/// # Errors
/// If it cannot be read.
pub(super) fn read_public(path: &Path, purpose: &'static str) -> Result<Vec<u8>, GatewayError> {
    read_if(path, purpose, |_| Ok(None))
}

fn read_if(
    path: &Path,
    purpose: &'static str,
    exposure: impl FnOnce(&File) -> io::Result<Option<String>>,
) -> Result<Vec<u8>, GatewayError> {
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
    read().unwrap_or_else(|error: io::Error| Err(error.to_string())).map_err(|problem| GatewayError::File {
        path: path.into(),
        purpose,
        problem,
    })
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
