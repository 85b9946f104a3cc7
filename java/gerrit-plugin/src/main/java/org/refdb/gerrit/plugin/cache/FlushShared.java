package org.refdb.gerrit.plugin.cache;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.common.Input;
import com.google.gerrit.extensions.restapi.ResourceConflictException;
import com.google.gerrit.extensions.restapi.ResourceNotFoundException;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestModifyView;
import com.google.gerrit.server.config.CacheResource;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.inject.Inject;
import java.io.IOException;
import org.kohsuke.args4j.Argument;
import org.kohsuke.args4j.Option;
import org.refdb.gerrit.cache.CacheAdmin;

/** Makes the values that the servers of a site share void on all these servers. */
final class FlushShared {
  private FlushShared() {}

  /** The cache whose values are void; null for all. */
  record Result(String flushed) {}

  private static Result run(CacheAdmin admin, String cache) throws ResourceConflictException {
    try {
      admin.flushShared(cache);
      return new Result(cache);
    } catch (IOException e) {
      throw new ResourceConflictException(e.getMessage(), e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new ResourceConflictException("interrupted; other servers may not know of the flush yet", e);
    }
  }

  /** {@code refdb cache flush --shared [CACHE]}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "flush", description = "Voids the values that servers share, of one cache or of all")
  static final class Command extends CacheCommand {
    @Option(name = "--shared", required = true, usage = "the shared tier; gerrit flush-caches empties all tiers")
    private boolean shared;

    @Argument(index = 0, metaVar = "CACHE", usage = "the cache's name; all without it")
    private String name;

    @Override
    void execute() throws UnloggedFailure, ResourceConflictException {
      Result result = FlushShared.run(admin(), name);
      stdout.println((result.flushed() == null ? "all caches" : result.flushed()) + ": older shared values are void");
    }
  }

  /** {@code POST /config/server/caches/NAME/refdb~flush-shared}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Endpoint implements RestModifyView<CacheResource, Input> {
    @Inject(optional = true)
    private CacheAdmin admin;

    @Override
    public Response<Result> apply(CacheResource cache, Input input)
        throws ResourceNotFoundException, ResourceConflictException {
      return Response.ok(FlushShared.run(admin, CacheResources.tools(cache).name()));
    }
  }
}
