//! One thing that several spans tell: an agent, a call, a hook.

use std::collections::{HashMap, HashSet};

use super::tree::{Role, Tree};
use crate::dialect::{Fact, Kind, Reading};
use crate::exception::Exception;

impl Tree<'_> {
    /// Some frameworks tell a nested agent by two spans side by side: one is the agent, the other has its work. A span that
    /// lies within an agent without any work, beside it and of its name, is that agent.
    pub(super) fn join_told_beside(&mut self) {
        let busy: HashSet<usize> = self.nodes.iter().filter_map(|node| node.parent).collect();
        let mut idle: HashMap<(usize, String), usize> = HashMap::new();
        for at in 0..self.nodes.len() {
            // Parents stand before their children, so that theirs is known.
            self.nodes[at].depth = self.nodes[at].parent.map_or(0, |parent| self.nodes[parent].depth + 1);
            let node = &self.nodes[at];
            let (Some(parent), Some(reading)) = (node.parent, &node.reading) else { continue };
            let is_agent = reading.kind == Kind::Agent;
            let name = reading.text(if is_agent { Fact::AgentName } else { Fact::HookName }).unwrap_or_default();
            let key = (parent, name.into_owned());
            let around = idle.get(&key).copied().filter(|agent| {
                let agent = &self.nodes[*agent];
                let is_within = agent.span.end.is_none_or(|end| node.span.end.is_some_and(|own| own <= end));
                is_within && agent.reading.as_ref().is_some_and(|agent| agent.dialect == reading.dialect)
            });
            match around {
                Some(agent) if reading.tells_again || !is_agent => {
                    let node = &mut self.nodes[at];
                    (node.parent, node.is_joined) = (Some(agent), true);
                    node.depth += 1;
                }
                _ if is_agent && !busy.contains(&at) => drop(idle.insert(key, at)),
                _ => {}
            }
        }
    }

    /// A model call takes what only the span right around it tells.
    pub(super) fn take_frame(&mut self, at: usize) {
        let Some(frame) = self.nodes[at].parent.and_then(|parent| self.reading(parent)) else { return };
        if frame.frames_call {
            let frame = frame.clone();
            if let Some(reading) = &mut self.nodes[at].reading {
                reading.fill_from(&frame);
            }
        }
    }

    /// Two spans that tell of the same tool call side by side, under the same run or call: the id and the name agree, one
    /// runs while the other does, and they are not written alike.
    pub(super) fn fold_told_twice(&mut self) {
        let mut calls: HashMap<(Option<usize>, String, String), usize> = HashMap::new();
        let mut tools: Vec<usize> = (0..self.nodes.len()).filter(|at| self.is_tool(*at)).collect();
        tools.sort_by_key(|at| (self.nodes[*at].span.start, self.nodes[*at].span.span_id.to_bytes()));
        for at in tools {
            let Some(reading) = self.reading(at) else { continue };
            let (Some(id), Some(name)) = (reading.text(Fact::ToolCallId), reading.text(Fact::ToolName)) else {
                continue;
            };
            let above = self.nodes[at].parent.and_then(|parent| self.nodes[parent].call);
            let key = (above, id.into_owned(), name.into_owned());
            match calls.get(&key).copied() {
                Some(first) if self.may_tell_the_same(first, at) => {
                    self.nodes[at].role = Role::Folded(first);
                    self.fold(at, first);
                }
                _ => drop(calls.insert(key, at)),
            }
        }
    }

    fn may_tell_the_same(&self, first: usize, at: usize) -> bool {
        let (first, span) = (self.nodes[first].span, self.nodes[at].span);
        let is_written_alike = first.name == span.name && first.scope.name == span.scope.name;
        !is_written_alike && span.start <= first.end_or_start()
    }

    /// Two instrumentations, or a name given by hand and the framework's own span, tell of one run: nested, no call
    /// between, one name. One dialect that has an agent of the same name inside an agent means two, unless it says that it
    /// tells each twice.
    pub(super) fn is_same_agent(&self, above: usize, at: usize) -> bool {
        let (Some(outer), Some(inner)) = (self.reading(above), self.reading(at)) else { return false };
        let name = |reading: &Reading<'_>| {
            crate::event::normalize_agent_id(&reading.text(Fact::AgentName).unwrap_or_default())
        };
        let may_be_one = outer.dialect != inner.dialect || inner.tells_again;
        let is_one =
            (may_be_one && name(outer) == name(inner)) || (inner.is_named_by_class && outer.dialect == inner.dialect);
        outer.kind == Kind::Agent && is_one
    }

    /// A model call inside a model call, or a tool inside a tool of the same name, is that same call; two ids are two calls.
    pub(super) fn is_same_call(&self, above: usize, at: usize) -> bool {
        let (Some(outer), Some(inner)) = (self.reading(above), self.reading(at)) else { return false };
        match (outer.kind, inner.kind) {
            (Kind::Model, Kind::Model) => true,
            (Kind::Tool, Kind::Tool) => {
                let ids = outer.text(Fact::ToolCallId).zip(inner.text(Fact::ToolCallId));
                let same_name = inner.is_stage || outer.text(Fact::ToolName) == inner.text(Fact::ToolName);
                same_name && ids.is_none_or(|(outer, inner)| outer == inner)
            }
            _ => false,
        }
    }

    /// A hook inside a hook of the same name is that same hook, if its dialect tells some twice.
    pub(super) fn is_same_hook(&self, above: usize, at: usize) -> bool {
        let (Some(outer), Some(inner)) = (self.reading(above), self.reading(at)) else { return false };
        let is_one = outer.kind == Kind::Hook && inner.tells_again;
        is_one && outer.text(Fact::HookName) == inner.text(Fact::HookName)
    }

    /// Fields that the outer span lacks are taken from the inner; of several inner ones, the later know the outcome.
    pub(super) fn fold(&mut self, at: usize, into: usize) {
        let inner = self.nodes[at].reading.clone();
        let exception = self.nodes[at].exception.clone();
        let outer = &mut self.nodes[into];
        let is_agent = matches!(outer.role, Role::Agent(_));
        let is_stage = inner.as_ref().is_some_and(|inner| inner.is_stage);
        if let (Some(outer), Some(inner)) = (&mut outer.reading, inner) {
            outer.fill_from(&inner);
            outer.framework = outer.framework.or(inner.framework);
            if is_agent {
                outer.completion = inner.completion;
                outer.usage_is_own |= inner.usage_is_own;
            }
        }
        // A call that was tried again inside has failed only if the outer span says so; a run has no second try, and a stage
        // of a call knows how the call ended. Of two exceptions of one class of a run the inner one is the cause, the outer
        // one what became of it on its way.
        let is_cause = |inner: &Exception, outer: &Exception| is_agent && inner.class == outer.class;
        match (&outer.exception, &exception) {
            (None, _) if is_agent || is_stage => outer.exception = exception,
            (Some(told), Some(inner)) if is_cause(inner, told) => outer.exception = exception,
            _ => {}
        }
    }
}
