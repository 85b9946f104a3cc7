package org.refdb.gerrit.plugin.cache;

import com.google.gerrit.extensions.restapi.RestApiException;
import com.google.gerrit.sshd.SshCommand;
import com.google.inject.Inject;
import java.util.List;
import org.kohsuke.args4j.Argument;
import org.refdb.gerrit.cache.CacheAdmin;
import org.refdb.gerrit.cache.CacheTools;

/** SSH adapter of an operation on persistent caches. The command fails if Gerrit runs without refdb's caches. */
abstract class CacheCommand extends SshCommand {
  @Inject(optional = true)
  private CacheAdmin admin;

  abstract void execute() throws UnloggedFailure, RestApiException;

  @Override
  protected final void run() throws UnloggedFailure {
    try {
      execute();
    } catch (RestApiException e) {
      throw die(e.getMessage());
    }
  }

  final CacheAdmin admin() throws UnloggedFailure {
    if (admin == null) {
      throw die("the persistent caches are not refdb's; see the administrator's guide");
    }
    return admin;
  }

  private CacheTools named(String name) throws UnloggedFailure {
    return admin().named(name).orElseThrow(() -> die("refdb has no persistent cache " + name));
  }

  /** A command with the argument {@code [CACHE]}. */
  abstract static class OneOrAll extends CacheCommand {
    @Argument(index = 0, metaVar = "CACHE", usage = "the cache's name; all without it")
    private String name;

    final boolean isAll() {
      return name == null;
    }

    final List<CacheTools> caches() throws UnloggedFailure {
      return name == null ? admin().all() : List.of(super.named(name));
    }
  }

  /** A command with the argument {@code CACHE}. */
  abstract static class One extends CacheCommand {
    @Argument(index = 0, required = true, metaVar = "CACHE", usage = "the cache's name")
    private String name;

    final CacheTools cache() throws UnloggedFailure {
      return super.named(name);
    }
  }
}
