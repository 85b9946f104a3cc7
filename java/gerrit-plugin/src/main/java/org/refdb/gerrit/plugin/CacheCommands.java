package org.refdb.gerrit.plugin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.gerrit.sshd.SshCommand;
import com.google.inject.Inject;
import java.io.UncheckedIOException;
import java.time.Instant;
import java.util.List;
import java.util.function.Supplier;
import org.kohsuke.args4j.Argument;
import org.kohsuke.args4j.Option;
import org.refdb.engine.Cache;
import org.refdb.gerrit.cache.CacheAdmin;
import org.refdb.gerrit.cache.CacheTools;

/** The SSH commands for the persistent caches: {@code refdb cache COMMAND}. Keys that are secrets are never printed. */
final class CacheCommands {
  private CacheCommands() {}

  /** What all have in common: the lib module's caches, if Gerrit runs with them. */
  abstract static class OnCaches extends SshCommand {
    @Inject(optional = true)
    private CacheAdmin admin;

    CacheAdmin admin() throws UnloggedFailure {
      if (admin == null) {
        throw die("the persistent caches are not refdb's; see the administrator's guide");
      }
      return admin;
    }

    CacheTools cache(String name) throws UnloggedFailure {
      return admin().named(name).orElseThrow(() -> die("refdb has no persistent cache " + name));
    }

    /** What it gives; a cache that cannot do it, or a harmed export, is the user's to read about. */
    <T> T orDie(Supplier<T> work) throws UnloggedFailure {
      try {
        return work.get();
      } catch (IllegalStateException | UncheckedIOException e) {
        throw die(e.getMessage());
      }
    }
  }

  /** A command with {@code [CACHE]}. */
  abstract static class OnOneOrAll extends OnCaches {
    @Argument(index = 0, metaVar = "CACHE", usage = "the cache's name; all without it")
    private String name;

    /** The cache of this name, or all. */
    List<CacheTools> caches() throws UnloggedFailure {
      return name == null ? admin().all() : List.of(cache(name));
    }
  }

  /** A command with {@code CACHE}. */
  abstract static class OnOne extends OnCaches {
    @Argument(index = 0, required = true, metaVar = "CACHE", usage = "the cache's name")
    private String name;

    CacheTools cache() throws UnloggedFailure {
      return cache(name);
    }
  }

  /** {@code refdb cache stat [CACHE]}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  @CommandMetaData(name = "stat", description = "Figures of one persistent cache, or of all")
  static final class Stat extends OnOneOrAll {
    @Override
    protected void run() throws UnloggedFailure {
      for (CacheTools cache : caches()) {
        stdout.println(cache.stat().text());
      }
    }
  }

  /** {@code refdb cache verify [CACHE]}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "verify", description = "Reads every record of a persistent cache, or of all, and checks it")
  static final class Verify extends OnOneOrAll {
    @Override
    protected void run() throws UnloggedFailure {
      long bad = 0;
      for (CacheTools cache : caches()) {
        Cache.Verified verified = cache.verify();
        bad += verified.bad();
        stdout.println(cache.name() + ": " + verified.good() + " entries are whole, " + verified.bad() + " harmed");
        stdout.flush();
      }
      if (bad > 0) {
        throw die(bad + " entries are harmed; they are misses and will be loaded anew");
      }
    }
  }

  /** {@code refdb cache compact [CACHE]}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "compact", description = "Frees the dead space in a persistent cache's files, or in all")
  static final class Compact extends OnOneOrAll {
    @Override
    protected void run() throws UnloggedFailure {
      for (CacheTools cache : caches()) {
        stdout.println(cache.name() + ": " + cache.compact() + " bytes freed");
        stdout.flush();
      }
    }
  }

  /** {@code refdb cache top CACHE [--by SIZE|USES] [-n COUNT]}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "top", description = "The largest or most used entries of a persistent cache")
  static final class Top extends OnOne {
    @Option(name = "--by", usage = "SIZE or USES")
    private CacheTools.Order order = CacheTools.Order.SIZE;

    @Option(name = "-n", metaVar = "COUNT", usage = "how many")
    private int count = 20;

    @Override
    protected void run() throws UnloggedFailure {
      try {
        for (CacheTools.TopEntry entry : cache().top(count, order)) {
          stdout.println(
              "%10d bytes, used %d, made %s: %s"
                  .formatted(
                      entry.diskBytes(), entry.uses(), Instant.ofEpochMilli(entry.createdMillis()), entry.key()));
        }
      } catch (IllegalArgumentException e) {
        throw die(e.getMessage());
      }
    }
  }

  /** {@code refdb cache export CACHE > FILE}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "export", description = "Writes all entries of a persistent cache to standard output")
  static final class Export extends OnOne {
    @Override
    protected void run() throws UnloggedFailure {
      CacheTools cache = cache();
      stderr.println(orDie(() -> cache.exportTo(out)) + " entries exported");
    }
  }

  /** {@code refdb cache import CACHE < FILE}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "import", description = "Takes the entries of an export from standard input")
  static final class Import extends OnOne {
    @Override
    protected void run() throws UnloggedFailure {
      CacheTools cache = cache();
      Cache.Imported imported = orDie(() -> cache.importFrom(in));
      stdout.println(
          "%d entries imported, %d kept as they were, %d too large"
              .formatted(imported.stored(), imported.kept(), imported.tooLarge()));
    }
  }
}
