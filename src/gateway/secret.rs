//! Files with tokens and keys, and what is wrong with them in the words of the gateway.

use std::path::Path;

use super::GatewayError;
use crate::secret;

/// Reads a file that has a secret.
///
/// # Errors
/// If it cannot be read, or others could have read or written it.
pub(super) fn read(path: &Path, purpose: &'static str) -> Result<Vec<u8>, GatewayError> {
    secret::read(path).map_err(|problem| GatewayError::File { path: path.into(), purpose, problem })
}

/// Reads a file that everybody may see, such as a certificate.
///
/// # Errors
/// If it cannot be read.
pub(super) fn read_public(path: &Path, purpose: &'static str) -> Result<Vec<u8>, GatewayError> {
    secret::read_public(path).map_err(|problem| GatewayError::File { path: path.into(), purpose, problem })
}
