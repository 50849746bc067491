//! The spellings of a class in `exception.type`, `error.type` and the like.

/// A class: its short name and, where the spelling gives it, its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassName<'a> {
    pub short: &'a str,
    pub module: Option<&'a str>,
}

/// What semantic conventions and wrappers write where they don't tell the class.
const PLACEHOLDERS: [&str; 4] = ["_OTHER", "Exception", "BaseException", "unknown"];

impl<'a> ClassName<'a> {
    /// Reads `module.Class`, `Class`, `<class 'module.Class'>`, `crate::module::Class`, `outer.<locals>.Class`; `None` for
    /// a blank.
    pub fn parse(spelled: &'a str) -> Option<Self> {
        let spelled = spelled.trim();
        let inner = spelled.strip_prefix("<class '").and_then(|rest| rest.strip_suffix("'>")).unwrap_or(spelled);
        // A Rust type's own generics hold separators too.
        let plain = match inner.find('<') {
            Some(at) if at > 0 && !inner[at..].starts_with("<locals>") => &inner[..at],
            _ => inner,
        };
        let (module, short) = match plain.rfind(['.', ':', '$']) {
            Some(at) => (plain.get(..at), plain.get(at + 1..)?),
            None => (None, plain),
        };
        let module = module.map(|module| module.trim_end_matches(':')).filter(|module| !module.is_empty());
        (!short.is_empty()).then_some(ClassName { short, module })
    }

    /// Whether it names a class at all, be it a root of all exceptions.
    pub fn is_class(self) -> bool {
        self.short.ends_with("Exception")
    }

    /// Whether the name tells nothing.
    pub fn is_placeholder(self) -> bool {
        self.module.is_none() && PLACEHOLDERS.contains(&self.short)
    }
}

/// Whether a module is `root` or below it.
pub(super) fn is_within(module: &str, root: &str) -> bool {
    module.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_give_the_short_name_and_the_module() {
        let parts = |spelled| ClassName::parse(spelled).map(|name| (name.module, name.short));
        assert_eq!(parts("ValueError"), Some((None, "ValueError")));
        assert_eq!(parts("pkg.mod.Err"), Some((Some("pkg.mod"), "Err")));
        assert_eq!(parts("<class 'pkg.Err'>"), Some((Some("pkg"), "Err")));
        assert_eq!(parts("test.<locals>.Err"), Some((Some("test.<locals>"), "Err")));
        assert_eq!(parts("my_crate::tool::Err"), Some((Some("my_crate::tool"), "Err")));
        assert_eq!(parts("my_crate::Err<alloc::string::String>"), Some((Some("my_crate"), "Err")));
        assert_eq!(parts("500"), Some((None, "500")));
        assert_eq!(parts("  "), None);
    }
}
