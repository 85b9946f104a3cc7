package org.refdb.gerrit.plugin.cache;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.BadRequestException;
import com.google.gerrit.extensions.restapi.ResourceConflictException;
import com.google.gerrit.extensions.restapi.ResourceNotFoundException;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestApiException;
import com.google.gerrit.extensions.restapi.RestModifyView;
import com.google.gerrit.extensions.restapi.RestReadView;
import com.google.gerrit.server.config.ConfigResource;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.inject.Inject;
import java.io.IOException;
import org.kohsuke.args4j.Argument;
import org.kohsuke.args4j.Option;
import org.refdb.gerrit.cache.CacheAdmin;
import org.refdb.gerrit.cache.Warming;

/** Copies what the servers of a site share into the caches of this server, in the background. */
final class WarmCaches {
  /**
   * The default of the most entries copied in a second, which is too low to burden this server or the server of the
   * shared cache.
   */
  private static final int RATE = 1_000;

  /** The shared cache as the source; any other name is the {@code gerrit.instanceId} of a server. */
  private static final String SHARED = "shared";

  private WarmCaches() {}

  private static Warming.Progress begin(CacheAdmin admin, String from, String cache, int rate)
      throws RestApiException {
    if (from == null || from.isBlank()) {
      throw new BadRequestException("from must be \"" + SHARED + "\", or the gerrit.instanceId of a server");
    }
    try {
      return admin.warm(SHARED.equals(from) ? null : from, cache, rate).progress();
    } catch (IOException e) {
      throw new ResourceConflictException(e.getMessage(), e);
    }
  }

  private static Warming last(CacheAdmin admin) throws ResourceNotFoundException {
    return admin.warming().orElseThrow(() -> new ResourceNotFoundException("nothing was copied since the start"));
  }

  private static Warming.Progress stop(CacheAdmin admin) throws ResourceNotFoundException {
    Warming warming = last(admin);
    warming.stop();
    return warming.progress();
  }

  /** {@code refdb cache warm [--from shared|NODE [--rate ENTRIES] [CACHE] | --stop]}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "warm", description = "Copies what servers share into this one, or shows how far it is")
  static final class Command extends CacheCommand {
    @Option(name = "--from", metaVar = "shared|NODE", usage = "begins a copy, after NODE has shared what it has")
    private String from;

    @Option(name = "--rate", metaVar = "ENTRIES", usage = "the most entries a second; 1000 without it")
    private Integer rate;

    @Option(name = "--stop", usage = "ends a copy that goes on")
    private boolean stop;

    @Argument(index = 0, metaVar = "CACHE", usage = "the cache's name; all without it")
    private String name;

    @Override
    void execute() throws UnloggedFailure, RestApiException {
      if (from == null && (name != null || rate != null) || from != null && stop) {
        throw die("--rate and a CACHE need --from, and --stop stands alone");
      }
      Warming.Progress progress =
          from != null
              ? WarmCaches.begin(admin(), from, name, rate == null ? RATE : rate)
              : stop ? WarmCaches.stop(admin()) : last(admin()).progress();
      stdout.println(progress.text());
    }
  }

  /** {@code GET /config/server/refdb~warm-caches}: how far the last copy is. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class ShowEndpoint implements RestReadView<ConfigResource> {
    @Inject(optional = true)
    private CacheAdmin admin;

    @Override
    public Response<Warming.Progress> apply(ConfigResource resource) throws ResourceNotFoundException {
      return Response.ok(last(refdbs(admin)).progress());
    }
  }

  /** What to copy, or whether to stop. */
  static final class Input {
    String from;
    String cache;
    int rate = RATE;
    boolean stop;
  }

  /** {@code POST /config/server/refdb~warm-caches}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Endpoint implements RestModifyView<ConfigResource, Input> {
    @Inject(optional = true)
    private CacheAdmin admin;

    @Override
    public Response<Warming.Progress> apply(ConfigResource resource, Input input) throws RestApiException {
      CacheAdmin present = refdbs(admin);
      if (input == null) {
        throw new BadRequestException("the request has no body");
      }
      return Response.ok(input.stop ? stop(present) : begin(present, input.from, input.cache, input.rate));
    }
  }

  private static CacheAdmin refdbs(CacheAdmin admin) throws ResourceNotFoundException {
    if (admin == null) {
      throw new ResourceNotFoundException("the persistent caches are not refdb's");
    }
    return admin;
  }
}
