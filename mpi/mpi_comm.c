/* Messages between ranks by MPI: an exchange is one non-blocking send and receive for each other rank. */
#define _POSIX_C_SOURCE 200809L
#include <psgd/mpi.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PIECE = 1 << 30 }; /* bytes of a message: MPI counts them in an int */

typedef struct mpi_slot {
    MPI_Request *requests;
    int count, room;
} mpi_slot;

typedef struct mpi_rank {
    MPI_Comm communicator;
    int rank, size;
    mpi_slot slots[PSGD_COMM_SLOTS];
} mpi_rank;

static psgd_status check(int code, const char *what)
{
    char words[MPI_MAX_ERROR_STRING] = "", sentence[MPI_MAX_ERROR_STRING + 64];
    int length = 0;
    if (code == MPI_SUCCESS) return PSGD_OK;
    MPI_Error_string(code, words, &length);
    snprintf(sentence, sizeof sentence, "MPI could not %s: %s", what, words);
    return psgd_comm_fail(PSGD_ERR_RANK, sentence);
}

/* Room for one more request. */
static MPI_Request *new_request(mpi_slot *slot)
{
    if (slot->count == slot->room) {
        int room = 2 * slot->room + 16;
        MPI_Request *more = realloc(slot->requests, (size_t)room * sizeof *more);
        if (!more) return NULL;
        slot->requests = more;
        slot->room = room;
    }
    return &slot->requests[slot->count++];
}

/* One message, in pieces. */
static psgd_status start(mpi_rank *self, int tag, const psgd_message *message, int peer, bool sends)
{
    mpi_slot *slot = &self->slots[tag];
    for (int64_t at = 0; at < message->bytes; at += PIECE) {
        int bytes = message->bytes - at < PIECE ? (int)(message->bytes - at) : PIECE;
        char *from = (char *)message->data + at;
        MPI_Request *request = new_request(slot);
        if (!request) return psgd_comm_fail(PSGD_ERR_NO_MEMORY, "no memory for messages to other ranks");
        int code = sends ? MPI_Isend(from, bytes, MPI_BYTE, peer, tag, self->communicator, request)
                         : MPI_Irecv(from, bytes, MPI_BYTE, peer, tag, self->communicator, request);
        if (code != MPI_SUCCESS) return check(code, sends ? "send" : "receive");
    }
    return PSGD_OK;
}

static psgd_status mpi_exchange(void *data, int slot, const psgd_message *out, const psgd_message *in)
{
    mpi_rank *self = data;
    psgd_status status = PSGD_OK;
    self->slots[slot].count = 0;
    for (int k = 1; k < self->size && status == PSGD_OK; k++) { /* receives first: what arrives early has its place */
        int peer = (self->rank + self->size - k) % self->size;
        status = start(self, slot, &in[peer], peer, false);
    }
    for (int k = 1; k < self->size && status == PSGD_OK; k++) {
        int peer = (self->rank + k) % self->size;
        status = start(self, slot, &out[peer], peer, true);
    }
    return status;
}

/* Tests in a loop for a while, then with short sleeps: MPI_Wait would keep a core busy that others may need. */
static psgd_status mpi_wait(void *data, int slot)
{
    enum { TRIES = 2000 };
    mpi_rank *self = data;
    const mpi_slot *s = &self->slots[slot];
    const struct timespec rest = {.tv_nsec = 20000};
    int code = MPI_SUCCESS, tries = 0;
    for (int i = 0, done = 0; i < s->count && code == MPI_SUCCESS; i += done) {
        code = MPI_Test(&s->requests[i], &done, MPI_STATUS_IGNORE);
        if (!done && tries++ > TRIES) nanosleep(&rest, NULL);
    }
    return check(code, "exchange messages");
}

/* A failure is left for wait to report. */
static void mpi_poll(void *data, int slot)
{
    const mpi_slot *s = &((mpi_rank *)data)->slots[slot];
    for (int i = 0, done = 1; i < s->count && done; i++) {
        if (MPI_Test(&s->requests[i], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
    }
}

static void mpi_stop(void *data, const char *sentence)
{
    (void)sentence; /* the library does not print */
    MPI_Abort(((mpi_rank *)data)->communicator, 1);
}

static void mpi_free(void *data)
{
    mpi_rank *self = data;
    for (int k = 0; k < PSGD_COMM_SLOTS; k++) free(self->slots[k].requests);
    if (self->communicator != MPI_COMM_NULL) MPI_Comm_free(&self->communicator);
    free(self);
}

/* Index 1: MPI may be called from any thread, one at a time. */
static const psgd_comm_ops mpi_ops[2] = {
    {.exchange = mpi_exchange, .wait = mpi_wait, .stop = mpi_stop, .free = mpi_free, .poll = mpi_poll},
    {.exchange = mpi_exchange, .wait = mpi_wait, .stop = mpi_stop, .free = mpi_free, .any_thread = 1, .poll = mpi_poll},
};

psgd_status psgd_mpi_comm(const psgd_context *context, MPI_Comm communicator, psgd_comm **comm)
{
    int initialised = 0;
    if (!comm) return psgd_comm_fail(PSGD_ERR_ARGUMENT, "psgd_mpi_comm: comm is NULL");
    *comm = NULL;
    MPI_Initialized(&initialised);
    if (!initialised) return psgd_comm_fail(PSGD_ERR_ARGUMENT, "psgd_mpi_comm comes after MPI_Init");
    mpi_rank *self = calloc(1, sizeof *self);
    if (!self) return psgd_comm_fail(PSGD_ERR_NO_MEMORY, "no memory for a comm over MPI");
    self->communicator = MPI_COMM_NULL;
    psgd_status status = check(MPI_Comm_dup(communicator, &self->communicator), "duplicate the communicator");
    if (status == PSGD_OK) {
        MPI_Comm_set_errhandler(self->communicator, MPI_ERRORS_RETURN);
        MPI_Comm_rank(self->communicator, &self->rank);
        MPI_Comm_size(self->communicator, &self->size);
        int level = MPI_THREAD_SINGLE;
        MPI_Query_thread(&level);
        const psgd_comm_ops *ops = &mpi_ops[level >= MPI_THREAD_SERIALIZED];
        return psgd_comm_create(context, self->rank, self->size, ops, self, comm);
    }
    mpi_free(self);
    return status;
}
