# Functions that the rules of all files of mk/ share.

# Returns the hash of files together.
hash_of = $(firstword $(shell cat $1 | sha256sum))

# Begins a command: prints a short line with the tool and the file instead of it, nothing with `make -s`. V=1 prints the command.
say = $(if $(filter-out 0,$(V)),,@$(if $(findstring s,$(firstword -$(MAKEFLAGS))),,printf '%-4s %s\n' '$1' '$2';))
# The prerequisites that the linker reads: objects first.
LINKED = $(filter %.o,$^) $(filter %.a,$^)

# $(call text,FILE,WORDS): the rule of a file with words. It is written only when they change, so that what depends on it is
# made again then. The + has `make -n` compare them, too. GNU make 4.3 does not always leave out the last newline: strip does.
define text_rule
$1: FORCE
	+$$(if $$(subst |$$(strip $$(file <$$@))|,,|$2|),$$(shell mkdir -p $$(@D))$$(file >$$@,$2))
endef
text = $(eval $(call text_rule,$1,$(strip $2)))

# $(call members,TARGET,OBJECTS): objects become prerequisites, and so does the list of them: without it the target would keep
# an object whose source is gone.
members = $(eval $1: $2 $1.members)$(call text,$1.members,$2)

# $(call archive,TARGET,OBJECTS): the rule of an archive. q, not r: keeps files of the same name from different folders.
define archive_rule
$1:
	$$(call say,AR,$$@)rm -f $$@ && ar qcs $$@ $$(filter %.o,$$^)
endef
archive = $(call members,$1,$2)$(eval $(call archive_rule,$1))
