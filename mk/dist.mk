# The source tarball.
dist: ## the sources of this commit as a tarball that builds without git, in build/dist
	@tools/dist.sh build/dist

.PHONY: dist
