//! Lines in portions that a consumer takes at once.

use std::iter;

use memchr::{memchr, memrchr};

use crate::event::BATCH_LIMIT;

/// Splits lines into as few portions of whole lines as keep each within [`BATCH_LIMIT`] bytes. A longer line, which
/// `event` never makes, comes alone: torn it would be lost.
pub(super) fn batches(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = lines;
    iter::from_fn(move || {
        let (batch, after) = rest.split_at(end_of_batch(rest));
        rest = after;
        (!batch.is_empty()).then_some(batch)
    })
}

fn end_of_batch(lines: &[u8]) -> usize {
    let Some(head) = lines.get(..=BATCH_LIMIT) else { return lines.len() };
    let last_end = memrchr(b'\n', &head[..BATCH_LIMIT]).or_else(|| memchr(b'\n', lines));
    last_end.map_or(lines.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bytes: usize) -> Vec<u8> {
        let mut line = vec![b'x'; bytes - 1];
        line.push(b'\n');
        line
    }

    fn sizes(lines: &[usize]) -> Vec<usize> {
        let lines = lines.iter().flat_map(|bytes| line(*bytes)).collect::<Vec<_>>();
        assert_eq!(batches(&lines).flatten().copied().collect::<Vec<_>>(), lines);
        batches(&lines).map(<[u8]>::len).collect()
    }

    #[test]
    fn a_batch_holds_as_many_whole_lines_as_fit() {
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[1]), [1]);
        assert_eq!(sizes(&[100, BATCH_LIMIT - 101]), [BATCH_LIMIT - 1]);
        assert_eq!(sizes(&[100, BATCH_LIMIT - 100]), [BATCH_LIMIT]);
        assert_eq!(sizes(&[100, BATCH_LIMIT - 99]), [100, BATCH_LIMIT - 99]);
        assert_eq!(sizes(&[BATCH_LIMIT, BATCH_LIMIT, 1]), [BATCH_LIMIT, BATCH_LIMIT, 1]);
    }

    #[test]
    fn a_line_over_the_limit_stays_whole() {
        assert_eq!(sizes(&[5, BATCH_LIMIT + 1, 7]), [5, BATCH_LIMIT + 1, 7]);
    }
}
